// SPDX-License-Identifier: Apache-2.0
// Indices that the CUDA prelude checks, run on the host: what is out of range ends the kernel.
#include <gtest/gtest.h>

#include "tests/unit/testing/cuda_on_host.h"

namespace {

constexpr int64_t kSize = 100;

tk::Vec<int64_t, 4> With(int64_t index) { return {{1, 2, index, 4}}; }

TEST(CheckedIndex, IsAsItWasInRange) {
  for (const int64_t index : {int64_t{0}, int64_t{7}, kSize - 1}) {
    EXPECT_EQ(tk::checked_index(With(index), kSize).at[2], index);
    EXPECT_EQ(tk::wrapped_index(With(index), kSize).at[2], index);
  }
  EXPECT_EQ(tk::wrapped_index(With(-1), kSize).at[2], kSize - 1);
  EXPECT_EQ(tk::wrapped_index(With(-kSize), kSize).at[2], 0);
}

TEST(CheckedIndex, OutOfRangeEndsTheKernel) {
  for (const int64_t index : {kSize, int64_t{1} << 32, -kSize - 1, int64_t{INT64_MIN}}) {
    EXPECT_DEATH(tk::checked_index(With(index), kSize), "index out of bounds") << index;
    EXPECT_DEATH(tk::wrapped_index(With(index), kSize), "index out of bounds") << index;
  }
  EXPECT_DEATH(tk::checked_index(With(-1), kSize), "index out of bounds");
}

TEST(CheckedIndex, LanesThatAreOffHaveNone) {
  const tk::Mask<4> others{{true, true, false, true}};
  tk::checked_index(With(kSize), kSize, others);
  tk::wrapped_index(With(-kSize - 1), kSize, others);
  EXPECT_DEATH(tk::checked_index(With(kSize), kSize, ~others), "index out of bounds");
}

}  // namespace
