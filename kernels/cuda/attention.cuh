// SPDX-License-Identifier: Apache-2.0
// Attention whose scores are never in memory: each warpgroup has 64 queries, and goes over tiles of
// keys with the largest score and the sum of exponentials that each query has seen so far
// (FlashAttention: Dao et al., 2022; the products in the background as in FlashAttention-3).
#ifndef TENSORD_CUDA_ATTENTION_CUH_
#define TENSORD_CUDA_ATTENTION_CUH_

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

namespace impl {

enum : int { kStages = 3 };  // tiles of keys and values in shared memory

// Where panels may begin, in shared memory that has 1024 bytes more than they take.
TK_FN uint32_t aligned(const char* bytes) {
  return (ptx::shared_address(bytes) + 1023) & ~1023u;
}

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
        ptx::copy_async(address + to + i * (kRows * 128), is_there ? p + i * kRows * stride : from + on,
                        exists && is_there);
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
        if (++part == parts) {
          part = 0;
          ++block;
        }
        if (tile >= tiles) continue;
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

// The block's tile of queries. masked(product of a query and a key, batch, head, query, key) gives
// a score, -inf where the query does not see the key; unmasked the same of tiles that are seen
// whole. sums: of each query the logarithm of its sum of exponentials; largest: its largest score;
// both [batch, heads, queries].
//
// D, V: columns of keys and of values, multiples of 64, of which `width` and `value_width` are
// there, multiples of 8. Q: queries of a block, of 2 * Q threads.
template <class S, int D, int V, int Q, class Masked, class Unmasked>
TK_FN void attention_forward(int number, char* bytes, const Rows<const S>& q,
                             const Rows<const S>& k, const Rows<const S>& v, const Rows<S>& out,
                             float* sums, float* largest, const AttentionSizes& n,
                             const Blocks& partial, const Blocks& whole, const Masked& masked,
                             const Unmasked& unmasked) {
  enum : int {
    kThreads = 2 * Q,
    kKeys = 64,
    kQueryBytes = impl::tile_bytes<D>(Q),
    kKeyBytes = impl::tile_bytes<D>(kKeys),
    kStageBytes = kKeyBytes + impl::tile_bytes<V>(kKeys),
    kWide = V % 128 == 0 ? 128 : 64,  // columns of a product with values
  };
  const int tiles = (n.queries + Q - 1) / Q;
  // Of a causal mask the last queries see most: they begin first.
  const int tile = tiles - 1 - number % tiles, bh = number / tiles;
  const int b = bh / n.heads, h = bh % n.heads, g = h / (n.heads / n.groups);
  const int first = tile * Q;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const uint32_t shared = impl::aligned(bytes), stages = shared + kQueryBytes;

  impl::TileCopy<S, Q, D, kThreads>(q.of(b, h), q.row, n.queries, n.width).start(shared, first);
  const impl::TileCopy<S, kKeys, D, kThreads> keys(k.of(b, g), k.row, n.keys, n.width);
  const impl::TileCopy<S, kKeys, V, kThreads> values(v.of(b, g), v.row, n.keys, n.value_width);
  impl::TileList list = impl::tiles_of(partial, whole, b, h, first / n.block_queries,
                                       n.block_keys / kKeys, (n.keys + kKeys - 1) / kKeys);
  const auto load = [&](int stage, int t) {
    if (t >= 0) {
      keys.start(stages + stage * kStageBytes, t * kKeys);
      values.start(stages + stage * kStageBytes + kKeyBytes, t * kKeys);
    }
    ptx::commit_copies();
  };

  float o[V / 2], s[kKeys / 2];
  _Pragma("unroll") for (int i = 0; i < V / 2; ++i) o[i] = 0;
  uint32_t weights[kKeys / 16][4];
  float most[2] = {-infinity<float>(), -infinity<float>()}, total[2] = {0, 0}, factor[2];
  const int row = first + warp * 16 + lane / 4;

  const uint32_t mine = shared + uint32_t(warp / 4 * 64 * 128);
  const auto multiply_keys = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes;
    _Pragma("unroll") for (int c = 0; c < D / 16; ++c) {
      ptx::Products<S, kKeys>::shared(
          s, ptx::matrix_at(mine + c / 4 * (Q * 128) + c % 4 * 32),
          ptx::matrix_at(at + c / 4 * (kKeys * 128) + c % 4 * 32), c > 0);
    }
    ptx::commit_products();
  };
  const auto multiply_values = [&](int stage) {
    const uint32_t at = stages + stage * kStageBytes + kKeyBytes;
    _Pragma("unroll") for (int c = 0; c < kKeys / 16; ++c) {
      _Pragma("unroll") for (int p = 0; p < V / kWide; ++p) {
        ptx::Products<S, kWide>::registers(
            o + p * (kWide / 2), weights[c],
            ptx::matrix_at(at + p * (kWide / 64) * (kKeys * 128) + c * 2048, kKeys * 128));
      }
    }
    ptx::commit_products();
  };
  const auto apply = [&](const auto& function, int t, bool all) {
    _Pragma("unroll") for (int i = 0; i < kKeys / 2; ++i) {
      const int query = row + i % 4 / 2 * 8, key = t * kKeys + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (all) {
        s[i] = function(s[i], b, h, query, key);
      } else {
        const bool exists = query < n.queries && key < n.keys;
        const float x = function(s[i], b, h, query < n.queries ? query : n.queries - 1,
                                 key < n.keys ? key : n.keys - 1);
        s[i] = exists ? x : -infinity<float>();
      }
    }
  };
  // Of products with the keys of tile t: exponentials, and by how much the results so far shrink.
  const auto exponentials = [&](int t, bool is_whole) {
    const bool all = first + Q <= n.queries && (t + 1) * kKeys <= n.keys;
    if (is_whole) {
      if (all)
        apply(unmasked, t, true);
      else
        apply(unmasked, t, false);
    } else {
      if (all)
        apply(masked, t, true);
      else
        apply(masked, t, false);
    }
    _Pragma("unroll") for (int r = 0; r < 2; ++r) {
      float m = most[r];
      _Pragma("unroll") for (int i = 0; i < kKeys / 8; ++i) {
        m = max(m, max(s[4 * i + 2 * r], s[4 * i + 2 * r + 1]));
      }
      m = max(m, __shfl_xor_sync(~0u, m, 1));
      m = max(m, __shfl_xor_sync(~0u, m, 2));
      const float zero = m == -infinity<float>() ? 0.0f : m * impl::log2_of_e();
      factor[r] = ptx::exp2_approx(most[r] * impl::log2_of_e() - zero);
      most[r] = m;
      float sum = 0;
      _Pragma("unroll") for (int i = 0; i < kKeys / 8; ++i) {
        _Pragma("unroll") for (int c = 0; c < 2; ++c) {
          float& x = s[4 * i + 2 * r + c];
          x = ptx::exp2_approx(x * impl::log2_of_e() - zero);
          sum += x;
        }
      }
      total[r] = total[r] * factor[r] + sum;
    }
  };
  const auto round_weights = [&] {
    _Pragma("unroll") for (int c = 0; c < kKeys / 16; ++c) {
      _Pragma("unroll") for (int i = 0; i < 4; ++i) {
        weights[c][i] = impl::pair_of<S>(s[8 * c + 2 * i], s[8 * c + 2 * i + 1]);
      }
    }
  };

  bool is_whole = false;
  int t = list.next(&is_whole);
  if (t >= 0) {
    bool next_is_whole = false;
    int next = list.next(&next_is_whole), stage = 0;
    load(0, t);
    load(1, next);
    ptx::wait_for_copies<1>();
    ptx::show_to_products();
    __syncthreads();
    ptx::begin_products();
    multiply_keys(0);
    ptx::wait_for_products<0>();
    exponentials(t, is_whole);
    round_weights();
    while (next >= 0) {
      const int following = stage + 1 == impl::kStages ? 0 : stage + 1;
      ptx::wait_for_copies<0>();
      ptx::show_to_products();
      __syncthreads();
      t = next;
      is_whole = next_is_whole;
      next = list.next(&next_is_whole);
      load(following + 1 == impl::kStages ? 0 : following + 1, next);
      ptx::begin_products();
      multiply_keys(following);
      multiply_values(stage);
      ptx::wait_for_products<1>();
      exponentials(t, is_whole);
      ptx::wait_for_products<0>();
      if (__any_sync(~0u, factor[0] != 1 || factor[1] != 1)) {
        _Pragma("unroll") for (int i = 0; i < V / 2; ++i) o[i] *= factor[i % 4 / 2];
      }
      round_weights();
      stage = following;
    }
    ptx::begin_products();
    multiply_values(stage);
    ptx::wait_for_products<0>();
  }

  _Pragma("unroll") for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    const int query = row + 8 * r;
    if (query >= n.queries) continue;
    const float part = total[r] > 0 ? 1.0f / total[r] : 0.0f;
    S* const to = out.of(b, h) + query * out.row + lane % 4 * 2;
    _Pragma("unroll") for (int i = 0; i < V / 8; ++i) {
      if (i * 8 >= n.value_width) break;
      *reinterpret_cast<uint32_t*>(to + i * 8) =
          impl::pair_of<S>(o[4 * i + 2 * r] * part, o[4 * i + 2 * r + 1] * part);
    }
    if (lane % 4 == 0) {
      const int64_t place = int64_t(bh) * n.queries + query;
      sums[place] = total[r] > 0 ? most[r] + logf(total[r]) : -infinity<float>();
      largest[place] = most[r];
    }
  }
}

}  // namespace tk

#endif  // TENSORD_CUDA_ATTENTION_CUH_
