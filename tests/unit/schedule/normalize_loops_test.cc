// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/normalize_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/lowered_loops.h"

namespace tensord::testing {
namespace normalize_loops_test {

using compiler::Program;

TEST(NormalizeLoopsTest, LoopsThatNoIndexDistinguishesAreOne) {
  GraphBuilder g;
  const Ref x = g.Input({4, 1, 6});
  g.Output(g.Node("aten::neg", {x}, g.Meta({4, 1, 6})));
  Program program = LoweredLoops(g);
  compiler::NormalizeLoops(&program);
  const compiler::LoopOp& op = LoopsOf(program, 0);
  ASSERT_EQ(op.sizes.size(), 1u);
  EXPECT_TRUE(op.sizes[0].Is(24));
}

TEST(NormalizeLoopsTest, LoopsRunInTheOrderOfTheStore) {
  GraphBuilder g;
  const Ref x = g.Input({4, 6});
  // Column-major, as the result of a pointwise operator of a transpose is.
  g.Output(g.Node("aten::clone", {x, nullptr}, g.Meta({4, 6}, v1::DTYPE_FLOAT32, {1, 4})));
  const Program before = LoweredLoops(g);
  Program after = before;
  compiler::NormalizeLoops(&after);
  const compiler::LoopOp& op = LoopsOf(after, 0);
  ASSERT_EQ(op.sizes.size(), 2u);
  EXPECT_TRUE(op.sizes[0].Is(6) && op.sizes[1].Is(4));
  EXPECT_EQ(ResultsOf(after, {{4, 6}}), ResultsOf(before, {{4, 6}}));
}

TEST(NormalizeLoopsTest, AReductionOverNothingIsItsNeutralElement) {
  GraphBuilder g;
  const Ref x = g.Input({4, 0});
  g.Output(g.Node("aten::prod.dim_int", {x, 1, false, nullptr}, g.Meta({4})));
  Program program = LoweredLoops(g);
  compiler::NormalizeLoops(&program);
  EXPECT_TRUE(LoopsOf(program, 0).reductions.empty());
  EXPECT_EQ(ResultsOf(program, {{4, 0}}), std::vector<double>(4, 1.0));
}

}  // namespace normalize_loops_test
}  // namespace tensord::testing
