// SPDX-License-Identifier: Apache-2.0
// Numbers that the CUDA prelude checks, run on the host: one that eager refuses ends the kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/testing/cuda_on_host.h"

namespace {

TEST(CheckedProbability, OutOfRangeEndsTheKernel) {
  const tk::Vec<float, 2> good{{0, 1}};
  EXPECT_EQ(tk::checked_probability(good).at[1], 1);
  const tk::Mask<2> first{{true, false}};
  for (const float p : {-0.1f, 1.5f, NAN}) {
    const tk::Vec<float, 2> bad{{0.5f, p}};
    EXPECT_DEATH(tk::checked_probability(bad), "not between 0 and 1") << p;
    EXPECT_EQ(tk::checked_probability(bad, first).at[0], 0.5f);
    EXPECT_DEATH(tk::checked_probability(bad, ~first), "not between 0 and 1") << p;
  }
}

}  // namespace
