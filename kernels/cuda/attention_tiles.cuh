// SPDX-License-Identifier: Apache-2.0
// What kernels of attention are made of: tiles of rows in shared memory, lists of them, products of
// warpgroups.
//
// of_query(batch, head, query) gives what functions of a score read of its query alone, a vector.
#ifndef TENSORD_CUDA_ATTENTION_TILES_CUH_
#define TENSORD_CUDA_ATTENTION_TILES_CUH_

#include "tensord/cuda/math.cuh"
#include "tensord/cuda/memory.cuh"
#include "tensord/cuda/warpgroup.cuh"

namespace tk {

// A tensor [batch, heads, rows, width], whose rows are contiguous; elements.
template <class S>
struct Rows {
  S* first;
  int64_t batch, head, row;
  TK_FN S* of(int b, int h) const { return first + b * batch + h * head; }
};

template <class S>
TK_FN Rows<const S> rows(const S* first, int64_t batch, int64_t head, int64_t row) {
  return {first, batch, head, row};
}
template <class S>
TK_FN Rows<S> result_rows(S* first, int64_t batch, int64_t head, int64_t row) {
  return {first, batch, head, row};
}

// Which tiles of keys the queries of a tile see: for each `queries` of them a list of the numbers
// of blocks of keys. Contiguous: counts [batches, heads, blocks], blocks [.., columns]; a size of 1
// is for all. None: all tiles.
struct Blocks {
  const int *counts, *blocks;
  int batches, heads, rows, columns;
};
TK_FN Blocks blocks(const int* counts, const int* blocks, int64_t batches, int64_t heads,
                    int64_t rows, int64_t columns) {
  return {counts, blocks, int(batches), int(heads), int(rows), int(columns)};
}
TK_FN Blocks all_blocks() { return {nullptr, nullptr, 1, 1, 1, 1}; }

// Scalars as one vector.
template <int W, class... T>
TK_FN Vec<float, W> joined(const T&... x) {
  return {{x.at[0]...}};
}

namespace impl {

enum : int { kStages = 3 };  // tiles of keys and values in shared memory

// Where panels may begin, in shared memory that has 1024 bytes more than they take.
TK_FN uint32_t aligned(const char* bytes) { return (ptx::shared_address(bytes) + 1023) & ~1023u; }

// Bytes of a tile of `rows` rows.
template <int D>
TK_FN constexpr int tile_bytes(int rows) {
  return rows * D * 2;
}

// A thread's part of copies of R rows of D columns (of which `width` are there) into panels.
template <class S, int R, int D, int T>
struct TileCopy {
  enum : int { kChunks = D / 8, kRows = T / kChunks, kEach = R / kRows };
  static_assert(T % kChunks == 0 && R % kRows == 0 && kRows % 8 == 0);
  const S* from;
  int64_t stride;
  uint32_t to;
  int row, rows;
  bool exists;  // the thread's chunk does

  TK_FN TileCopy(const S* first, int64_t stride, int rows, int width)
      : stride(stride), row(int(threadIdx.x) / kChunks), rows(rows) {
    const int chunk = int(threadIdx.x) % kChunks;
    exists = chunk * 8 < width;
    from = first + row * stride + (exists ? chunk * 8 : 0);
    to = uint32_t(chunk / 8 * (R * 128) + row * 128 + ((chunk % 8 ^ row % 8) << 4));
  }
  // Rows [begin, begin + R) to `address`, of what lies so many elements on; zeros beyond the last.
  TK_FN void start(uint32_t address, int begin, int64_t on = 0) const {
    const S* const p = from + on + begin * stride;
    if (begin + R <= rows) {
      _Pragma("unroll") for (int i = 0; i < kEach; ++i) {
        ptx::copy_async(address + to + i * (kRows * 128), p + i * kRows * stride, exists);
      }
    } else {
      _Pragma("unroll") for (int i = 0; i < kEach; ++i) {
        const bool is_there = begin + row + i * kRows < rows;
        ptx::copy_async(address + to + i * (kRows * 128),
                        is_there ? p + i * kRows * stride : from + on, exists && is_there);
      }
    }
  }
};

// The tiles of keys that a tile of queries sees, one after the other: those that are seen in part
// first.
struct TileList {
  const int* blocks[2];
  int counts[2];
  int list, block, part;
  int parts;  // tiles of a block
  int tiles;  // of all keys

  // -1 behind the last one.
  TK_FN int next(bool* is_whole) {
    while (list < 2) {
      if (block < (list == 0 ? counts[0] : counts[1])) {
        const int* const of = list == 0 ? blocks[0] : blocks[1];
        const int tile = (of != nullptr ? of[block] : block) * parts + part;
        // Behind the keys there are no more of the block's.
        const bool exists = tile < tiles;
        if (++part == parts || !exists) {
          part = 0;
          ++block;
        }
        if (!exists) continue;
        *is_whole = list == 1;
        return tile;
      }
      ++list;
      block = part = 0;
    }
    return -1;
  }
};

TK_FN TileList tiles_of(const Blocks& partial, const Blocks& whole, int b, int h, int row,
                        int parts, int tiles) {
  TileList list{};
  list.parts = parts;
  list.tiles = tiles;
  const Blocks* const both[2] = {&partial, &whole};
  _Pragma("unroll") for (int i = 0; i < 2; ++i) {
    const Blocks& of = *both[i];
    if (of.counts == nullptr) continue;
    const int64_t at =
        (int64_t(of.batches == 1 ? 0 : b) * of.heads + (of.heads == 1 ? 0 : h)) * of.rows + row;
    list.counts[i] = of.counts[at];
    list.blocks[i] = of.blocks + at * of.columns;
  }
  if (partial.counts == nullptr) list.counts[1] = (tiles + parts - 1) / parts;
  return list;
}

// Two floats as neighbours of storage type S.
template <class S>
TK_FN uint32_t pair_of(float a, float b) {
  if constexpr (kSame<S, half>)
    return ptx::floats_to_halves(a, b);
  else
    return ptx::floats_to_bfloat16s(a, b);
}

enum : int { kLog2OfE = 0x3fb8aa3b };  // bits of a float
TK_FN float log2_of_e() { return __builtin_bit_cast(float, int(kLog2OfE)); }

TK_FN int lane_of_warp() { return int(threadIdx.x) % 32; }
// The first of the thread's two rows of its block's; the other is 8 further.
TK_FN int row_of_thread() { return int(threadIdx.x) / 32 * 16 + lane_of_warp() / 4; }
// The warpgroup's 64 rows of a matrix.
TK_FN uint32_t rows_of_group(uint32_t matrix) {
  return matrix + uint32_t(threadIdx.x) / 128 * (64 * 128);
}

// The products of 64 rows of `a`, a matrix of R rows, and of N rows of `b`, of C columns each.
template <class S, int N, int C, int R>
TK_FN void multiply_rows(float* products, uint32_t a, uint32_t b) {
  _Pragma("unroll") for (int c = 0; c < C / 16; ++c) {
    ptx::Products<S, N>::shared(products, ptx::matrix_at(a + c / 4 * (R * 128) + c % 4 * 32),
                                ptx::matrix_at(b + c / 4 * (N * 128) + c % 4 * 32), c > 0);
  }
}

// Adds 64 rows of weights times K rows of C columns.
template <class S, int K, int C>
TK_FN void add_weighed(float* sums, const uint32_t (*weights)[4], uint32_t rows) {
  enum : int { kWide = C % 128 == 0 ? 128 : 64 };
  _Pragma("unroll") for (int k = 0; k < K / 16; ++k) {
    _Pragma("unroll") for (int p = 0; p < C / kWide; ++p) {
      ptx::Products<S, kWide>::registers(
          sums + p * (kWide / 2), weights[k],
          ptx::matrix_at(rows + p * (kWide / 64) * (K * 128) + k * 2048, K * 128));
    }
  }
}

// Products of N columns, rounded, as weights.
template <class S, int N>
TK_FN void round_weights(uint32_t (*weights)[4], const float* products) {
  _Pragma("unroll") for (int k = 0; k < N / 16; ++k) {
    _Pragma("unroll") for (int i = 0; i < 4; ++i) {
      weights[k][i] = pair_of<S>(products[8 * k + 2 * i], products[8 * k + 2 * i + 1]);
    }
  }
}

// The thread's columns of one of its two rows, of C columns of which `width` are there.
template <class S, int C>
TK_FN void store_row(S* row, const float* sums, int which, float factor, int width) {
  S* const to = row + lane_of_warp() % 4 * 2;
  _Pragma("unroll") for (int i = 0; i < C / 8; ++i) {
    if (i * 8 >= width) break;
    *reinterpret_cast<uint32_t*>(to + i * 8) =
        pair_of<S>(sums[4 * i + 2 * which] * factor, sums[4 * i + 2 * which + 1] * factor);
  }
}

// What of_query gives of the thread's two rows, which are queries.
template <class OfQuery>
struct ValuesOfRows {
  typedef decltype(static_cast<const OfQuery*>(nullptr)->operator()(0, 0, 0)) Values;
  Values of[2];
  TK_FN ValuesOfRows(const OfQuery& of_query, int b, int h, int row, int rows) {
    _Pragma("unroll") for (int i = 0; i < 2; ++i) {
      const int query = row + 8 * i;
      of[i] = of_query(b, h, query < rows ? query : rows - 1);
    }
  }
};
// Which of the thread's rows a product belongs to.
TK_FN int row_of_product(int i) { return i % 4 / 2; }

// f(number, row, column, whether it exists) of each product of N columns that the thread has. One
// that does not is said to be where the nearest is that does; there are none where they are `all`.
template <int N, class F>
TK_FN void each_product(int row, int rows, int column, int columns, bool all, const F& f) {
  _Pragma("unroll") for (int i = 0; i < N / 2; ++i) {
    const int r = row + row_of_product(i) * 8,
              c = column + i / 4 * 8 + lane_of_warp() % 4 * 2 + i % 2;
    if (all)
      f(i, r, c, true);
    else
      f(i, r < rows ? r : rows - 1, c < columns ? c : columns - 1, r < rows && c < columns);
  }
}

// The stage behind one.
TK_FN int next_stage(int stage) { return stage + 1 == kStages ? 0 : stage + 1; }

// All copies that this thread has begun are there, and all threads of the block that come here may
// multiply what theirs are of.
TK_FN void meet_copies() {
  ptx::show_to_products();
  __syncthreads();
}

// Goes over the tiles of a list, of which there are three at a time on chip or on their way:
//   load(stage, t)        begins to copy tile t, none where it is -1
//   multiply(stage)       begins the products with the tile in a stage, which is there
//   add(stage)            begins to add what is settled times that tile
//   compute(t, is_whole)  takes the products with tile t, while the tile before it is added
//   settle()              with nothing under way: has what was computed be what is added next
template <class Load, class Multiply, class Add, class Compute, class Settle>
TK_FN void go_over_tiles(TileList list, const Load& load, const Multiply& multiply, const Add& add,
                         const Compute& compute, const Settle& settle) {
  bool is_whole = false, next_is_whole = false;
  int t = list.next(&is_whole);
  if (t < 0) return;
  int next = list.next(&next_is_whole), stage = 0;
  load(0, t);
  load(1, next);
  ptx::wait_for_copies<1>();
  meet_copies();
  ptx::begin_products();
  multiply(0);
  ptx::wait_for_products<0>();
  compute(t, is_whole);
  settle();
  while (next >= 0) {
    const int following = next_stage(stage);
    ptx::wait_for_copies<0>();
    meet_copies();
    t = next;
    is_whole = next_is_whole;
    next = list.next(&next_is_whole);
    load(next_stage(following), next);
    ptx::begin_products();
    multiply(following);
    add(stage);
    ptx::wait_for_products<1>();
    compute(t, is_whole);
    ptx::wait_for_products<0>();
    settle();
    stage = following;
  }
  ptx::begin_products();
  add(stage);
  ptx::wait_for_products<0>();
}

}  // namespace impl

struct AttentionSizes {
  int heads, groups;  // of queries, of keys
  int queries, keys;
  int width, value_width;
  int block_queries, block_keys;  // of the lists' blocks; multiples of tiles
};
TK_FN AttentionSizes attention_sizes(int64_t heads, int64_t groups, int64_t queries, int64_t keys,
                                     int64_t width, int64_t value_width, int64_t block_queries,
                                     int64_t block_keys) {
  return {int(heads), int(groups),      int(queries),       int(keys),
          int(width), int(value_width), int(block_queries), int(block_keys)};
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATTENTION_TILES_CUH_
