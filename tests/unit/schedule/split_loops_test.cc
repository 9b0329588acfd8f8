// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/split_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/lowered_loops.h"

namespace tensord::testing {
namespace split_loops_test {

using compiler::Program;

// A matrix, transposed and copied into one row.
Program Flattened(int rows, int columns) {
  GraphBuilder g;
  const Ref x = g.Input({rows, columns});
  const Ref t = g.Node("aten::t", {x}, g.Meta({columns, rows}, v1::DTYPE_FLOAT32, {1, columns}));
  const Ref flat = g.Node("aten::reshape", {t, Ints({rows * columns})}, g.Meta({rows * columns}));
  g.Output(g.Node("aten::neg", {flat}, g.Meta({rows * columns})));
  return LoweredLoops(g);
}

// Whether an index of a load has a quotient or a remainder among its terms.
bool Divides(const compiler::LoopOp& op) {
  for (const compiler::Inst& inst : op.block.insts) {
    for (const sym::Term& term : inst.index.terms()) {
      for (const sym::AtomPtr& atom : term.atoms) {
        if (atom->kind == sym::AtomKind::kFloorDiv || atom->kind == sym::AtomKind::kMod) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST(SplitLoopsTest, DivisionsVanish) {
  const Program before = Flattened(4, 6);
  ASSERT_EQ(before.operations.size(), 1u);
  ASSERT_TRUE(Divides(LoopsOf(before, 0)));
  Program after = before;
  compiler::SplitLoops(&after);
  EXPECT_FALSE(Divides(LoopsOf(after, 0)));
  EXPECT_EQ(LoopsOf(after, 0).sizes.size(), 2u);
  EXPECT_EQ(ResultsOf(after, {{4, 6}}), ResultsOf(before, {{4, 6}}));
}

TEST(SplitLoopsTest, ComparisonsAreTheSameForAVector) {
  GraphBuilder g;
  const Ref x = g.Input({2, 32}), y = g.Input({2, 32});
  const Ref both = g.Node("aten::cat", {List({x, y}), 1}, g.Meta({2, 64}));
  g.Output(g.Node("aten::neg", {both}, g.Meta({2, 64})));
  const Program before = LoweredLoops(g);
  Program after = before;
  compiler::SplitLoops(&after);
  EXPECT_EQ(ResultsOf(after, {{2, 32}, {2, 32}}), ResultsOf(before, {{2, 32}, {2, 32}}));
}

TEST(SplitLoopsTest, PlainLoopsStay) {
  GraphBuilder g;
  const Ref x = g.Input({4, 6});
  g.Output(g.Node("aten::neg", {x}, g.Meta({4, 6})));
  Program program = LoweredLoops(g);
  compiler::SplitLoops(&program);
  EXPECT_EQ(LoopsOf(program, 0).sizes.size(), 2u);
}

}  // namespace split_loops_test
}  // namespace tensord::testing
