// SPDX-License-Identifier: Apache-2.0
// Choices among what cuBLASLt 13.1 offered on an H200, with the times that were measured there.
#include "runtime/cuda/product_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/cuda/cublaslt.h"

namespace tensord::runtime {
namespace {

constexpr int kNvjet = 66, kOlder = 21;
constexpr int kLtTile64x64 = 15, kLtTile96x128 = 28, kLtTile192x128 = 31, kLtTile192x192 = 209;

using Offers = std::vector<OfferedAlgorithm>;

struct Case {
  std::string name;
  int64_t depth;
  int tile;  // to be chosen
  Offers offered;
};

std::vector<Case> Cases() {
  return {
      {"two blocks of a multiprocessor overlap their ends: 768x8192x768, 21.4 us became 19.0",
       768,
       kLtTile128x128,
       {{kNvjet, kLtTile192x128, 7, 1, 1.939f},
        {kNvjet, kLtTile128x128, 1, 1, 2.909f},
        {kNvjet, kLtTile96x128, 0, 1, 3.879f}}},
      {"ends are little of a deep product, and the rounds are as full: 1024x4096x8192",
       8192,
       kLtTile192x128,
       {{kNvjet, kLtTile192x128, 7, 1, 0.97f}, {kNvjet, kLtTile128x128, 1, 1, 1.939f}}},
      {"the fullest rounds: 5632x4096x1024, 67.6 us became 61.6",
       1024,
       kLtTile176x128,
       {{kNvjet, kLtTile192x192, 4, 1, 5.0f},
        {kNvjet, kLtTile128x160, 1, 1, 8.667f},
        {kNvjet, kLtTile176x128, 2, 1, 7.758f},
        {kNvjet, kLtTile128x128, 1, 1, 10.667f}}},
      {"one full round without partial sums: 3072x768x12608, 96.3 us became 80.6",
       12608,
       kLtTile192x96,
       {{kNvjet, kLtTile192x192, 6, 2, 0.485f},
        {kNvjet, kLtTile128x160, 1, 1, 0.909f},
        {kNvjet, kLtTile192x96, 3, 1, 0.97f}}},
      {"a fuller round: 768x3072x4096, 31.3 us became 27.9",
       4096,
       kLtTile192x96,
       {{kNvjet, kLtTile128x160, 3, 1, 0.909f}, {kNvjet, kLtTile192x96, 3, 1, 0.97f}}},
      {"a round that is too full: 1024x2048x1024, 10.8 us would be 21.2",
       1024,
       kLtTile128x160,
       {{kNvjet, kLtTile128x160, 1, 1, 0.9f}, {kNvjet, kLtTile192x96, 3, 1, 1.0f}}},
      {"groups of warps that share a tile fill a multiprocessor, whatever the tile",
       768,
       kLtTile192x192,
       {{kNvjet, kLtTile192x192, 4, 1, 2.0f}, {kNvjet, kLtTile128x128, 5, 1, 4.0f}}},
      {"a tile that is not known to be fast: 256x12544x1024, 12.1 us would be 18.6",
       1024,
       kLtTile192x128,
       {{kNvjet, kLtTile192x128, 4, 1, 1.0f}, {kNvjet, kLtTile96x128, 0, 1, 2.0f}}},
      {"older kernels are left alone: 64x64x200704, 26 us would be 820",
       200704,
       kLtTile64x64,
       {{kOlder, kLtTile64x64, 0, 132, 0.5f}, {kNvjet, kLtTile128x128, 1, 1, 0.008f}}},
      {"nothing is known of how full the device is",
       768,
       kLtTile192x128,
       {{kNvjet, kLtTile192x128, 7, 1, 0.0f}, {kNvjet, kLtTile128x128, 1, 1, 2.0f}}},
      {"only one", 768, kLtTile192x128, {{kNvjet, kLtTile192x128, 7, 1, 1.0f}}},
  };
}

TEST(RuntimeProductChoice, OnHopper) {
  for (const Case& c : Cases()) {
    EXPECT_EQ(c.offered[ChooseAlgorithm(c.offered, c.depth, 90)].tile, c.tile) << c.name;
  }
}

TEST(RuntimeProductChoice, TheLibrarysOwnElsewhere) {
  for (const Case& c : Cases()) {
    for (const uint32_t sm : {80u, 89u, 100u}) {
      EXPECT_EQ(ChooseAlgorithm(c.offered, c.depth, sm), 0u) << c.name;
    }
  }
}

}  // namespace
}  // namespace tensord::runtime
