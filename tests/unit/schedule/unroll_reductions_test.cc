// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/unroll_reductions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/lowered_loops.h"

namespace tensord::testing {
namespace unroll_reductions_test {

using compiler::Program;

// The sum over a dimension of [outer, terms, inner].
Program Sum(int terms, int inner, int dim = 1) {
  GraphBuilder g;
  const Ref x = g.Input({4, terms, inner});
  const Shape sizes = dim == 1 ? Shape{4, inner} : Shape{4, terms};
  g.Output(g.Node("aten::sum.dim_IntList", {x, Ints({dim}), false, nullptr}, g.Meta(sizes)));
  return LoweredLoops(g);
}

TEST(UnrollReductionsTest, AFewTermsAreAdded) {
  const Program before = Sum(3, 8);
  ASSERT_FALSE(LoopsOf(before, 0).reductions.empty());
  Program after = before;
  compiler::UnrollReductions(&after);
  const compiler::LoopOp& op = LoopsOf(after, 0);
  EXPECT_TRUE(op.reductions.empty() && op.reduce_sizes.empty());
  int loads = 0;
  for (const compiler::Inst& inst : op.block.insts) {
    loads += inst.kind == compiler::InstKind::kLoad ? 1 : 0;
  }
  EXPECT_EQ(loads, 3);
  EXPECT_EQ(ResultsOf(after, {{4, 3, 8}}), ResultsOf(before, {{4, 3, 8}}));
}

TEST(UnrollReductionsTest, ManyTermsAndRowsStay) {
  for (Program program : {Sum(9, 8), Sum(8, 3, 2)}) {
    compiler::UnrollReductions(&program);
    EXPECT_EQ(LoopsOf(program, 0).reductions.size(), 1u);
  }
}

}  // namespace unroll_reductions_test
}  // namespace tensord::testing
