// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/unroll_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/schedule/split_loops.h"
#include "tests/unit/testing/lowered_loops.h"

namespace tensord::testing {
namespace unroll_parts_test {

using compiler::LoopOp;
using compiler::Program;

constexpr v1::DType kComplex = v1::DTYPE_COMPLEX64;

// The squares of six complex numbers, as twelve real ones.
Ref Squares(GraphBuilder& g) {
  const Ref x = g.Input({6, 2});
  const Ref z = g.Node("aten::view_as_complex", {x}, g.Meta({6}, kComplex));
  const Ref squares = g.Node("aten::mul.Tensor", {z, z}, g.Meta({6}, kComplex));
  return g.Node("aten::view_as_real", {squares}, g.Meta({6, 2}));
}

Program Unrolled(const Program& program) {
  Program after = program;
  compiler::SplitLoops(&after);
  compiler::UnrollParts(&after);
  EXPECT_TRUE(compiler::VerifyProgram(after).ok()) << compiler::VerifyProgram(after);
  return after;
}

bool Chooses(const LoopOp& op) {
  for (const compiler::Inst& inst : op.block.insts) {
    if (inst.kind == compiler::InstKind::kCompute && inst.op == compiler::Op::k_where) return true;
  }
  return false;
}

TEST(UnrollPartsTest, BothPartsAreStoredSideBySide) {
  GraphBuilder g;
  const Ref flat = g.Node("aten::reshape", {Squares(g), Ints({12})}, g.Meta({12}));
  g.Output(g.Node("aten::exp", {flat}, g.Meta({12})));
  const Program before = LoweredLoops(g);
  ASSERT_TRUE(Chooses(LoopsOf(before, 0)));
  const Program after = Unrolled(before);
  const LoopOp& op = LoopsOf(after, 0);
  EXPECT_FALSE(Chooses(op));
  ASSERT_EQ(op.sizes.size(), 1u);
  EXPECT_TRUE(op.sizes[0].Is(6));
  ASSERT_EQ(op.stores.size(), 2u);
  EXPECT_EQ(op.stores[1].index, op.stores[0].index + 1);
  int loads = 0;
  for (const compiler::Inst& inst : op.block.insts) {
    loads += inst.kind == compiler::InstKind::kLoad ? 1 : 0;
  }
  EXPECT_EQ(loads, 2) << "both parts are made of the same";
  EXPECT_EQ(ResultsOf(after, {{6, 2}}), ResultsOf(before, {{6, 2}}));
}

TEST(UnrollPartsTest, PartsThatAreSummedAreTerms) {
  GraphBuilder g;
  g.Output(g.Node("aten::sum", {Squares(g), nullptr}, g.Meta({})));
  const Program before = LoweredLoops(g);
  const Program after = Unrolled(before);
  EXPECT_FALSE(Chooses(LoopsOf(after, 0)));
  EXPECT_EQ(LoopsOf(after, 0).reduce_sizes.size(), 1u);
  EXPECT_EQ(ResultsOf(after, {{6, 2}}), ResultsOf(before, {{6, 2}}));
}

TEST(UnrollPartsTest, SumsOfEachPartAreReductionsOfTheirOwn) {
  GraphBuilder g;
  g.Output(g.Node("aten::sum.dim_IntList", {Squares(g), Ints({0}), false, nullptr}, g.Meta({2})));
  const Program before = LoweredLoops(g);
  const Program after = Unrolled(before);
  ASSERT_EQ(after.operations.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_FALSE(Chooses(LoopsOf(after, i)));
  EXPECT_EQ(ResultsOf(after, {{6, 2}}), ResultsOf(before, {{6, 2}}));
}

TEST(UnrollPartsTest, PrefixesAlongBothPartsStayLoops) {
  GraphBuilder g;
  const Ref squares = Squares(g),
            flat = g.Node("aten::reshape", {squares, Ints({12})}, g.Meta({12}));
  g.Output(g.Node("aten::cumsum", {flat, 0, nullptr}, g.Meta({12})));
  GraphBuilder pairs;
  pairs.Output(pairs.Node("aten::cumsum", {Squares(pairs), 1, nullptr}, pairs.Meta({6, 2})));
  for (GraphBuilder* graph : {&g, &pairs}) {
    const Program before = LoweredLoops(*graph), after = Unrolled(before);
    ASSERT_TRUE(compiler::Scans(LoopsOf(after, 0)));
    EXPECT_TRUE(LoopsOf(after, 0).reduce_sizes.back().Is(2));
    EXPECT_EQ(ResultsOf(after, {{6, 2}}), ResultsOf(before, {{6, 2}}));
  }
}

TEST(UnrollPartsTest, PrefixesOfEachPartAreTwoScans) {
  GraphBuilder g;
  g.Output(g.Node("aten::cumsum", {Squares(g), 0, nullptr}, g.Meta({6, 2})));
  const Program before = LoweredLoops(g), after = Unrolled(before);
  EXPECT_FALSE(Chooses(LoopsOf(after, 0)));
  EXPECT_EQ(LoopsOf(after, 0).stores.size(), 2u);
  EXPECT_EQ(ResultsOf(after, {{6, 2}}), ResultsOf(before, {{6, 2}}));
}

// Eager divides by all of them, whichever of the quotients are chosen.
TEST(UnrollPartsTest, ChoicesOfWhatIsCheckedStay) {
  GraphBuilder g;
  const v1::TensorMeta pairs = g.Meta({6, 2}, v1::DTYPE_INT64);
  const Ref a = g.Input(pairs), b = g.Input(pairs), c = g.Input(pairs);
  const Ref parts = g.Node("aten::arange", {2, v1::DTYPE_INT64, nullptr, nullptr, nullptr},
                           g.Meta({2}, v1::DTYPE_INT64));
  const Ref is_first = g.Node("aten::eq.Scalar", {parts, 0}, g.Meta({2}, v1::DTYPE_BOOL));
  const Ref quotients = g.Node("aten::floor_divide", {a, b}, pairs);
  g.Output(g.Node("aten::where.self", {is_first, quotients, c}, pairs));
  EXPECT_TRUE(Chooses(LoopsOf(Unrolled(LoweredLoops(g)), 0)));
}

TEST(UnrollPartsTest, OtherLoopsStay) {
  GraphBuilder g;
  const Ref x = g.Input({4, 2});
  g.Output(g.Node("aten::neg", {x}, g.Meta({4, 2})));
  const Program before = LoweredLoops(g);
  EXPECT_EQ(compiler::ToString(Unrolled(before)), compiler::ToString(before));
}

}  // namespace unroll_parts_test
}  // namespace tensord::testing
