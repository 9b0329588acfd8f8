// SPDX-License-Identifier: Apache-2.0
// Tiles in shared memory for operands whose elements lie next to each other along another loop than
// the one that vectors run along.
#ifndef TENSORD_CUDA_TILE_CUH_
#define TENSORD_CUDA_TILE_CUH_

#include "tensord/cuda/memory.cuh"

namespace tk {
namespace impl {

// The bits of element i, which is known when the code is compiled, as are all below.
template <class S, int W>
TK_FN typename Packed<S, W>::Word element(const Packed<S, W>& p, int i) {
  if constexpr (sizeof(S) >= 4) {
    return p.word[i];
  } else {
    constexpr int kPerWord = 4 / int(sizeof(S)), kBits = 8 * int(sizeof(S));
    return p.word[i / kPerWord] >> kBits * (i % kPerWord) & ((1u << kBits) - 1);
  }
}
template <class S, int W>
TK_FN void add_element(Packed<S, W>* p, int i, typename Packed<S, W>::Word bits) {
  if constexpr (sizeof(S) >= 4) {
    p->word[i] = bits;
  } else {
    constexpr int kPerWord = 4 / int(sizeof(S)), kBits = 8 * int(sizeof(S));
    p->word[i / kPerWord] |= bits << kBits * (i % kPerWord);
  }
}

}  // namespace impl

// A elements along the vector loop times B across it, for a block of T threads. In global memory,
// runs of V elements lie along B and start at multiples of V. In the tile, rows of A elements are
// contiguous. All parameters but T are powers of two.
//
//   using Tile0 = tk::Tile<float, 64, 64, 4, T>;
//   Tile0::fill(tile, p, step, left_a, left_b);
//   __syncthreads();
//   const auto x = Tile0::read<W>(tile, b, a);
//
// Each thread transposes small squares in registers, so that it reads and writes vectors. Chunks of
// a row are swizzled by the row number to avoid bank conflicts.
template <class S, int A, int B, int V, int T>
struct Tile {
  enum : int {
    // Elements that are written at once. Single bytes would be transposed for too long in larger
    // ones.
    kChunk = sizeof(S) == 1 ? 4 : 16 / int(sizeof(S)),
    kChunks = A / kChunk,
    kBankChunks = 128 / (kChunk * int(sizeof(S))),
    kPlaces = kChunks < kBankChunks ? kChunks : kBankChunks,
    kPieces = kChunks * (B / V),
    kUnroll = kChunk < 16 ? 16 / kChunk : 1,
  };

  // Unsigned, as all places below: their divisions are shifts then.
  static TK_FN unsigned at(unsigned b, unsigned a) {
    return b * A + (a / kChunk ^ b / V % kPlaces) * kChunk + a % kChunk;
  }

  // `p`: the tile's first element in global memory; `step` leads to the next along the vector loop.
  // Of the tile only left_a times left_b elements exist, left_b a multiple of V.
  template <class I>
  static TK_FN void fill(S* tile, const S* p, I step, I left_a, I left_b) {
#pragma unroll kUnroll
    for (int first = 0; first < kPieces; first += T) {
      const unsigned piece = first + threadIdx.x;
      if (kPieces % T != 0 && piece >= kPieces) break;
      // The compiler sees that a < A, and leaves out the bounds of whole tiles.
      const unsigned a = piece / (B / V) % kChunks * kChunk, b = piece % (B / V) * V;
      Packed<S, V> in[kChunk] = {};
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        if (I(a + i) < left_a && I(b) < left_b) {
          in[i] = impl::read_packed<impl::Cache::kUsual, S, V>(p + I(a + i) * step + I(b));
        }
      }
#pragma unroll
      for (int k = 0; k < V; ++k) {
        Packed<S, kChunk> out = {};
#pragma unroll
        for (int i = 0; i < kChunk; ++i) impl::add_element(&out, i, impl::element(in[i], k));
        impl::write_packed<impl::Cache::kUsual, S, kChunk>(tile + at(b + k, a), out);
      }
    }
  }

  // W elements of row b from column a, a multiple of W.
  template <int W>
  static TK_FN Vec<Compute<S>, W> read(const S* tile, int b, int a) {
    constexpr int kPart = W < kChunk ? W : kChunk;
    Vec<Compute<S>, W> r;
#pragma unroll
    for (int i = 0; i < W; i += kPart) {
      const auto part = load<S, kPart>(tile + at(b, a + i));
#pragma unroll
      for (int j = 0; j < kPart; ++j) r.at[i + j] = part.at[j];
    }
    return r;
  }
};

}  // namespace tk

#endif  // TENSORD_CUDA_TILE_CUH_
