// SPDX-License-Identifier: Apache-2.0
// What follows from the threads and vectors of a CUDA nest: how a thread runs through its row, what
// groups and blocks combine at once; and what the verifier holds plans to.
#include <gmock/gmock.h>

#include "compiler/schedule/cuda/verify_plan.h"
#include "tests/unit/schedule/cuda_planned.h"

namespace tensord::testing {
namespace cuda_plan_test {

using compiler::CudaElements;
using compiler::CudaPlan;
using compiler::CudaRows;
using compiler::CudaScanRows;
using compiler::CudaSplit;
using compiler::CudaSweep;
using compiler::FinishLaunch;
using compiler::Nest;
using compiler::RowAccess;
using compiler::RowGroup;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// Two sums along each row in one pass, and two sums of columns.
GraphBuilder LayerNormBackward(int rows, int columns) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({rows, columns}), of_columns = g.Meta({columns});
  const Ref grad = g.Input(meta), x = g.Input(meta);
  const Ref mean = g.Input({rows, 1}), rstd = g.Input({rows, 1});
  const Ref weight = g.Input({columns}), bias = g.Input({columns});
  const Ref r =
      g.Node("aten::native_layer_norm_backward",
             {grad, x, Ints({columns}), mean, rstd, weight, bias, List({true, true, true})},
             {meta, of_columns, of_columns});
  return g.Output(r).Output(r.result(1)).Output(r.result(2));
}
GraphBuilder SumOfAll(const Shape& sizes) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes);
  return g.Output(g.Node("aten::sum", {x, nullptr}, g.Meta(Shape{})));
}
// x * 2 ^ step and so on: scalars that cost as much as several vectors.
GraphBuilder ScaledByPowers(int size, int powers) {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({size}), scalar = g.Meta(Shape{});
  Ref x = g.Input(meta);
  Ref factor = g.Input(Shape{});
  for (int i = 0; i < powers; ++i)
    factor = g.Node("aten::pow.Tensor_Tensor", {factor, factor}, scalar);
  return g.Output(g.Node("aten::mul.Tensor", {x, factor}, meta));
}

RowGroup GroupOf(GraphBuilder graph) { return Planned(std::move(graph)).plan().group(); }

TEST(CudaRowInside, WholeVectorsAreThoseThatEveryThreadHas) {
  const RowGroup even = GroupOf(Softmax({9, 768}));  // 64 threads, 3 vectors of 4 each
  EXPECT_EQ(even.register_vectors, 3);
  EXPECT_EQ(even.whole_vectors, 3);
  const RowGroup uneven = GroupOf(Softmax({9, 800}));  // 200 vectors
  EXPECT_EQ(uneven.register_vectors, 4);
  EXPECT_EQ(uneven.whole_vectors, 3);
  const RowGroup interleaved = GroupOf(Softmax({9, 1537}));
  ASSERT_EQ(interleaved.access, RowAccess::kInterleaved);
  EXPECT_EQ(interleaved.whole_vectors, 1537 / (4 * interleaved.threads));
  EXPECT_LT(interleaved.whole_vectors, interleaved.register_vectors);
  EXPECT_EQ(GroupOf(Softmax({3, 40000})).whole_vectors, 0);  // none are in registers
  // A load at any place touches what lies behind its vector: the last whole one is not.
  const RowGroup unaligned = GroupOf(Sum({9, 2049}, 1, kBF16));
  ASSERT_EQ(unaligned.access, RowAccess::kUnaligned);
  EXPECT_EQ(unaligned.whole_vectors, (2049 - 7) / (8 * unaligned.threads));
}

// Threads beyond the last column have no rows.
TEST(CudaRowInside, VectorsOfColumnTilesAreWholeWhereTheyAreAligned) {
  const RowGroup aligned = GroupOf(Sum({300, 96}, 0));
  EXPECT_EQ(aligned.whole_vectors, 1);
  EXPECT_EQ(aligned.register_vectors, 1);
}

TEST(CudaRowInside, RowsThatAreRunThroughOnceHaveSeveralVectorsInFlight) {
  const Planned split(Sum({2, 40000}, 1), 132);
  ASSERT_TRUE(split.plan().Is<CudaSplit>());
  EXPECT_EQ(split.plan().vectors_in_flight(), 4);
  const Planned passes(LayerNormBackward(300, 80000));
  EXPECT_EQ(passes.plan().register_vectors(), 0) << ToString(passes.kernel());
  EXPECT_EQ(passes.plan().vectors_in_flight(), 0);
  EXPECT_EQ(Planned(Softmax({9, 768})).plan().vectors_in_flight(), 0);    // in registers
  EXPECT_EQ(Planned(SumOfAll({300, 96})).plan().vectors_in_flight(), 0);  // no rows
  const Planned elements(ScaledByPowers(9000, 3));
  EXPECT_GT(elements.As<CudaElements>().vectors_per_thread, 1);
  EXPECT_EQ(elements.plan().vectors_in_flight(), 2);
}

TEST(CudaRowInside, SumsOfOnePassAreJointInGroupsOfWarps) {
  const Planned warps(LayerNormBackward(98, 1024));
  ASSERT_EQ(warps.plan().G(), 64);
  ASSERT_EQ(warps.plan().threads, 256);
  ASSERT_EQ(warps.plan().group().joint_sums.size(), 1u);
  EXPECT_EQ(warps.plan().group().joint_sums[0].size(), 2u);
  EXPECT_THAT(ToString(warps.kernel()), HasSubstr("joint sums"));
  // A warp needs no barrier.
  const Planned warp(LayerNormBackward(101, 768));
  ASSERT_EQ(warp.plan().G(), 32);
  EXPECT_THAT(warp.plan().group().joint_sums, IsEmpty());
}

TEST(CudaCombining, GroupsCombineTheVectorsThatSharedMemoryHasRoomFor) {
  // Half of 256 threads hand over vectors of four floats: 2 KiB each.
  const Planned one(Sum({300, 96}, 0));
  EXPECT_THAT(one.As<CudaSweep>().combined_vectors, ElementsAre(Pair(0, 1)));
  EXPECT_EQ(one.As<CudaSweep>().combine_bytes, 128 * 4 * 4);
  // Half of 128 threads; all six vectors of each are less than 16 KiB.
  const Planned six(LayerNormBackward(101, 768));
  ASSERT_EQ(six.plan().register_vectors(), 6);
  ASSERT_EQ(six.As<CudaSweep>().combined_vectors.size(), 2u);
  for (const auto& [number, vectors] : six.As<CudaSweep>().combined_vectors) {
    EXPECT_EQ(vectors, 6) << number;
  }
  EXPECT_EQ(six.As<CudaSweep>().combine_bytes, 6 * 64 * 4 * 4);
  // One group a block has nothing to combine.
  const Planned block(LayerNormBackward(64, 1537));
  ASSERT_EQ(block.plan().groups(), 1);
  EXPECT_THAT(block.As<CudaSweep>().combined_vectors, IsEmpty());
  EXPECT_EQ(block.As<CudaSweep>().combine_bytes, 0);
}

TEST(CudaCombining, ColumnsHaveASecondLaunchAndTotalsNone) {
  const Planned columns(Sum({300, 96}, 0));
  ASSERT_TRUE(columns.As<CudaSweep>().finish);
  EXPECT_EQ(columns.kernel().finish_threads, columns.As<CudaSweep>().finish->threads);
  EXPECT_FALSE(columns.plan().combines_in_last_block());
  EXPECT_THAT(ToString(columns.kernel()), HasSubstr("finish t256 columns8 8 in flight"));
  const Planned total(SumOfAll({300, 96}));
  EXPECT_FALSE(total.As<CudaSweep>().finish);
  EXPECT_EQ(total.kernel().finish_threads, 0);
  EXPECT_TRUE(total.plan().combines_in_last_block());
}

std::string FaultOf(const CudaPlan& plan, const Nest& nest = {}) {
  return std::string(compiler::VerifyCudaPlan(nest, plan).message());
}

TEST(CudaPlans, TheVerifierSaysWhatIsBroken) {
  const CudaPlan sound{.threads = 256, .kind = CudaRows{.group = {.threads = 32}}};
  EXPECT_EQ(FaultOf(sound), "");
  CudaPlan plan = sound;
  plan.threads = 48;
  EXPECT_THAT(FaultOf(plan), HasSubstr("do not fill the block"));
  plan = sound;
  std::get<CudaRows>(plan.kind).loads_first = true;
  EXPECT_THAT(FaultOf(plan), HasSubstr("loaded first has no registers"));
  plan.kind = CudaSweep{.prefetches = true};
  EXPECT_THAT(FaultOf(plan), HasSubstr("prefetched has no registers"));
  plan.kind = CudaSweep{.group = {.register_vectors = 1}, .column_tiles = compiler::ColumnTiles{}};
  EXPECT_THAT(FaultOf(plan), HasSubstr("many copies of its columns"));
  plan.kind = CudaSplit{.group = {.threads = 32}, .parts = 2};
  EXPECT_THAT(FaultOf(plan), HasSubstr("not all threads'"));
  plan.kind = CudaRows{.group = {.register_vectors = 1, .whole_vectors = 2}};
  EXPECT_THAT(FaultOf(plan), HasSubstr("more whole vectors"));
  plan.kind = CudaRows{.group = {.register_vectors = 1, .vectors_in_flight = 4}};
  EXPECT_THAT(FaultOf(plan), HasSubstr("run in no loop"));
  plan.kind = CudaElements{.vectors_in_flight = 2};
  EXPECT_THAT(FaultOf(plan), HasSubstr("more vectors in flight"));
}

TEST(CudaPlans, TheVerifierKnowsWhoMayScan) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({40, 5000});
  g.Output(g.Node("aten::cumsum", {x, 1, nullptr}, g.Meta({40, 5000})));
  const Planned planned(std::move(g));
  const Nest& nest = planned.kernel().nests[0].nest;
  EXPECT_EQ(FaultOf(planned.plan(), nest), "");
  EXPECT_THAT(FaultOf(planned.plan(), Planned(Sum({40, 5000}, 1)).kernel().nests[0].nest),
              HasSubstr("a nest without one"));
  CudaPlan other = planned.plan();
  for (const auto& kind : std::initializer_list<decltype(other.kind)>{
           CudaElements{}, CudaRows{}, CudaSweep{}, CudaSplit{}, compiler::CudaTiles{}}) {
    other.kind = kind;
    other.threads = other.G();
    EXPECT_THAT(FaultOf(other, nest), HasSubstr("a schedule that knows none"));
  }
  other.kind = compiler::CudaColumns{};
  EXPECT_THAT(FaultOf(other, nest), HasSubstr("or a scan has none"));
  const auto fault = [&](const auto& change) {
    CudaPlan plan = planned.plan();
    change(std::get<CudaScanRows>(plan.kind));
    return FaultOf(plan, nest);
  };
  EXPECT_THAT(fault([](CudaScanRows& r) { r.group.access = compiler::RowAccess::kInterleaved; }),
              HasSubstr("whole, aligned vectors"));
  EXPECT_THAT(fault([](CudaScanRows& r) { r.group.threads /= 2; }),
              HasSubstr("several groups of warps"));
  EXPECT_THAT(fault([](CudaScanRows& r) {
                r.group.threads = 32;
                r.loops = true;
              }),
              HasSubstr("in one place"));
  EXPECT_THAT(fault([](CudaScanRows& r) { r.group.register_vectors = r.group.whole_vectors = 0; }),
              HasSubstr("neither in registers nor in flight"));
}

TEST(CudaPlans, TheVerifierKnowsWhatSumsAreJoint) {
  const Planned planned(LayerNormBackward(98, 1024));
  const Nest& nest = planned.kernel().nests[0].nest;
  const std::vector<int> sums = planned.plan().group().joint_sums.at(0);
  EXPECT_EQ(FaultOf(planned.plan(), nest), "");
  const auto fault = [&](std::vector<std::vector<int>> joint) {
    CudaPlan plan = planned.plan();
    std::get<CudaSweep>(plan.kind).group.joint_sums = std::move(joint);
    return FaultOf(plan, nest);
  };
  EXPECT_THAT(fault({{sums[0]}}), HasSubstr("save nothing"));
  EXPECT_THAT(fault({{sums[0], 99}}), HasSubstr("is no reduction"));
  EXPECT_THAT(fault({sums, sums}), HasSubstr("in two places"));
  const int columns = planned.As<CudaSweep>().combined_vectors.begin()->first;
  EXPECT_THAT(fault({{sums[0], columns}}), HasSubstr("not sums of floats"));
}

TEST(CudaPlans, TheVerifierKnowsWhatIsCombined) {
  const Planned planned(LayerNormBackward(98, 1024));
  const auto fault = [&](const auto& change) {
    CudaPlan plan = planned.plan();
    change(std::get<CudaSweep>(plan.kind));
    return FaultOf(plan, planned.kernel().nests[0].nest);
  };
  EXPECT_THAT(fault([](CudaSweep& s) { s.combined_vectors.clear(); }), HasSubstr("do not combine"));
  EXPECT_THAT(fault([](CudaSweep& s) { s.combined_vectors[99] = 1; }), HasSubstr("is no sum of"));
  EXPECT_THAT(fault([](CudaSweep& s) { s.combined_vectors.begin()->second = 99; }),
              HasSubstr("other vectors"));
  EXPECT_THAT(fault([](CudaSweep& s) { s.combine_bytes -= 1; }), HasSubstr("finds no room"));
  EXPECT_THAT(fault([](CudaSweep& s) { s.finish.reset(); }), HasSubstr("or these without it"));
  EXPECT_THAT(fault([](CudaSweep& s) { s.finish->columns = 7; }), HasSubstr("do not fill"));
}

}  // namespace cuda_plan_test
}  // namespace tensord::testing
