// SPDX-License-Identifier: Apache-2.0
// The interpreter's own numbers, by which lowerings are judged: narrow types, random numbers,
// integers that wrap.
#include "tests/unit/testing/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/testing/scalar_ops.h"

namespace tensord::testing {
namespace interpreter_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Interpreter, RoundsToNarrowTypes) {
  EXPECT_EQ(RoundTo(1 + 0x1p-9, v1::DTYPE_BFLOAT16), 1);
  EXPECT_EQ(RoundTo(1 + 3 * 0x1p-8, v1::DTYPE_BFLOAT16), 1 + 0x1p-6);  // a tie goes to even
  EXPECT_EQ(RoundTo(65520, v1::DTYPE_FLOAT16), kInfinity);
  EXPECT_EQ(RoundTo(65519, v1::DTYPE_FLOAT16), 65504);
  EXPECT_EQ(RoundTo(0x1p-25, v1::DTYPE_FLOAT16), 0);
  EXPECT_EQ(RoundTo(0x1.8p-25, v1::DTYPE_FLOAT16), 0x1p-24);
  EXPECT_EQ(RoundTo(450, v1::DTYPE_FLOAT8_E4M3FN), 448);
  EXPECT_TRUE(std::isnan(RoundTo(1000, v1::DTYPE_FLOAT8_E4M3FN)));
}

TEST(Interpreter, PhiloxHasThePublishedValue) {
  // Random123's known answer for counter 0 and key 0 begins with 6627e8d5.
  const Cell u = EvaluateOp(compiler::Op::k_philox_uniform, v1::DTYPE_INT64, {{}, {}, {}});
  EXPECT_EQ(u.real, (0x6627e8d5u >> 8) * 0x1p-24);
}

TEST(Interpreter, IntegersWrap) {
  EXPECT_EQ(CastCell({.integer = 300}, v1::DTYPE_INT64, v1::DTYPE_UINT8).integer, 44);
  EXPECT_EQ(CastCell({.integer = 200}, v1::DTYPE_INT64, v1::DTYPE_INT8).integer, -56);
}

}  // namespace interpreter_test
}  // namespace tensord::testing
