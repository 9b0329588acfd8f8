// SPDX-License-Identifier: Apache-2.0
// The CUDA prelude's tiles in shared memory, run on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>
// After all others.
#include "tests/unit/testing/cuda_on_host.h"

namespace {

using cuda_on_host::RunBlock;

// The tile's transpose, of which only left_a times left_b elements exist; and that the 16 bytes (or
// 4, of single bytes) of neighbouring threads lie in different banks.
template <class S, int A, int B, int V, int W>
void CheckTile(int left_a, int left_b) {
  constexpr int kThreads = 64, kStep = B + 8;
  typedef tk::Tile<S, A, B, V, kThreads> Tile;
  std::vector<S> memory(A * kStep);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = S(i * 7 % 101);
  alignas(16) S tile[A * B];
  std::vector<int> wrong(kThreads);
  RunBlock(kThreads, [&] {
    Tile::fill(tile, memory.data(), kStep, left_a, left_b);
    __syncthreads();
    for (int i = int(threadIdx.x); i < A * B / W; i += kThreads) {
      const int b = i / (A / W), a = i % (A / W) * W;
      const auto v = Tile::template read<W>(tile, b, a);
      for (int k = 0; k < W; ++k) {
        const bool exists = a + k < left_a && b < left_b;
        wrong[threadIdx.x] += v.at[k] != (exists ? memory[(a + k) * kStep + b] : S(0));
      }
    }
  });
  EXPECT_EQ(std::accumulate(wrong.begin(), wrong.end(), 0), 0);
  constexpr int kChunkBytes = Tile::kChunk * int(sizeof(S)), kAtOnce = Tile::kPlaces;
  std::set<int> written, read;
  for (int i = 0; i < std::min<int>(kAtOnce, B / V); ++i) {
    written.insert(int(Tile::at(i * V, Tile::kChunk) * sizeof(S)) / kChunkBytes % kAtOnce);
    read.insert(int(Tile::at(3, i * Tile::kChunk) * sizeof(S)) / kChunkBytes % kAtOnce);
  }
  EXPECT_EQ(int(written.size()), std::min<int>(kAtOnce, B / V));
  EXPECT_EQ(int(read.size()), std::min<int>(kAtOnce, B / V));
}
TEST(TileTest, TurnsWhatItReads) {
  CheckTile<float, 64, 64, 4, 4>(64, 64);
  CheckTile<float, 64, 64, 4, 8>(37, 60);
  CheckTile<float, 32, 64, 2, 1>(32, 6);
  CheckTile<float, 64, 32, 1, 2>(63, 31);
  CheckTile<double, 32, 32, 2, 4>(32, 32);
  CheckTile<double, 32, 32, 1, 1>(5, 32);
  CheckTile<int16_t, 64, 64, 8, 8>(64, 64);
  CheckTile<int16_t, 64, 64, 2, 4>(51, 62);
  CheckTile<int8_t, 128, 128, 4, 8>(128, 128);
  CheckTile<int8_t, 32, 64, 1, 2>(31, 61);
}

}  // namespace
