// SPDX-License-Identifier: Apache-2.0
// Which kind of schedule a CPU nest has, why others are not for it, and what tasks keep where.
#include <gmock/gmock.h>

#include "compiler/pipeline.h"
#include "compiler/schedule/cpu/column_blocks.h"
#include "compiler/schedule/cpu/flat.h"
#include "compiler/schedule/cpu/transposed_rows.h"
#include "compiler/schedule/cpu/verify_plan.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace cpu_kinds_test {

using compiler::CpuColumnBlocks;
using compiler::CpuFlat;
using compiler::CpuKernelPlan;
using compiler::CpuRows;
using compiler::CpuTransposedRows;
using compiler::PlannedCpuNest;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kI64 = v1::DTYPE_INT64;

class Planned {
 public:
  explicit Planned(GraphBuilder graph, v1::Isa isa = v1::ISA_AVX512) {
    *job_.mutable_graph() = graph.graph();
    job_.mutable_target()->mutable_cpu()->set_isa(isa);
    state_.job = &job_;
    const absl::Status status = compiler::RunPipeline(state_);
    EXPECT_TRUE(status.ok()) << status;
  }

  std::vector<PlannedCpuNest> nests() const {
    std::vector<PlannedCpuNest> all;
    for (const compiler::KernelPlan& plan : state_.kernel_plans) {
      const std::vector<PlannedCpuNest>& nests = std::get<CpuKernelPlan>(plan).nests;
      all.insert(all.end(), nests.begin(), nests.end());
    }
    return all;
  }
  const PlannedCpuNest& first() const {
    return std::get<CpuKernelPlan>(state_.kernel_plans.at(0)).nests.at(0);
  }
  const compiler::Nest& nest() const { return first().nest; }
  const compiler::CpuPlan& plan() const { return first().plan; }
  template <class Kind>
  bool Is() const {
    return plan().As<Kind>() != nullptr;
  }

 private:
  v1::CompileJob job_;
  compiler::CompileState state_;
};

GraphBuilder Doubled(const Shape& sizes) {
  GraphBuilder g;
  const Ref x = g.Input(sizes);
  return g.Output(g.Node("aten::mul.Scalar", {x, 2}, g.Meta(sizes)));
}
// x + y.t()
GraphBuilder PlusTransposed(int rows, int columns) {
  GraphBuilder g;
  const v1::TensorMeta meta = g.Meta({rows, columns});
  const Ref x = g.Input(meta), y = g.Input({columns, rows});
  const Ref t = g.Node("aten::t", {y}, g.Meta({rows, columns}, kF32, {1, rows}));
  return g.Output(g.Node("aten::add.Tensor", {x, t, 1}, meta));
}
GraphBuilder Sum(const Shape& sizes, int dim) {
  GraphBuilder g;
  const Ref x = g.Input(sizes);
  return g.Output(g.Node("aten::sum.dim_IntList", {x, Ints({dim}), false, nullptr},
                         g.Meta(Shape{sizes[1 - dim]})));
}
// A softmax of what many instructions give, which is kept for the later passes.
GraphBuilder SoftmaxOfTanh(int rows, int columns) {
  GraphBuilder g;
  const v1::TensorMeta meta = g.Meta({rows, columns});
  const Ref x = g.Input(meta);
  const Ref tanh = g.Node("aten::tanh", {x}, meta);
  return g.Output(g.Node("aten::_softmax", {tanh, 1, false}, meta));
}
std::string Why(const absl::Status& status) { return std::string(status.message()); }

TEST(CpuKinds, FlatTakesOneSpace) {
  const Planned planned(Doubled({64, 64}));
  ASSERT_TRUE(planned.Is<CpuFlat>());
  EXPECT_EQ(planned.plan().As<CpuFlat>()->chunk % planned.plan().lanes, 0);
  EXPECT_EQ(planned.plan().lanes, 16);
  EXPECT_EQ(Planned(Doubled({64, 64}), v1::ISA_AVX2).plan().lanes, 8);
  EXPECT_EQ(Planned(Doubled({64, 64}), v1::ISA_UNSPECIFIED).plan().lanes, 1);
  EXPECT_THAT(Why(CanScheduleColumnBlocks(planned.nest())), HasSubstr("rows run in parallel"));
  EXPECT_THAT(Why(CanScheduleTransposedRows(planned.nest(), 16)), HasSubstr("no two loops"));
  // Nothing to cut into chunks.
  const Planned one(Doubled({}));
  EXPECT_TRUE(one.Is<CpuRows>());
  EXPECT_THAT(Why(CanScheduleFlat(one.nest())), HasSubstr("one element"));
}

TEST(CpuKinds, TransposedRowsTakeWhatLiesAcross) {
  const Planned planned(PlusTransposed(64, 96));
  EXPECT_TRUE(planned.Is<CpuTransposedRows>());
  EXPECT_THAT(Why(CanScheduleFlat(planned.nest())), HasSubstr("has rows"));
  EXPECT_THAT(Why(CanScheduleTransposedRows(planned.nest(), 1)), HasSubstr("one element"));
  const Planned small(PlusTransposed(8, 96));
  EXPECT_TRUE(small.Is<CpuRows>());
  EXPECT_THAT(Why(CanScheduleTransposedRows(small.nest(), 16)), HasSubstr("shorter than a vector"));
  EXPECT_TRUE(CanScheduleTransposedRows(small.nest(), 8).ok());
  const Planned sum(Sum({64, 96}, 1));
  EXPECT_THAT(Why(CanScheduleTransposedRows(sum.nest(), 16)), HasSubstr("not one pointwise pass"));
}

TEST(CpuKinds, ColumnBlocksTakeReductionsOverFewRows) {
  const Planned planned(Sum({40, 512}, 0));
  ASSERT_TRUE(planned.Is<CpuColumnBlocks>());
  EXPECT_EQ(planned.plan().As<CpuColumnBlocks>()->columns % planned.plan().lanes, 0);
  EXPECT_TRUE(planned.plan().accumulator_copies.empty());
}

// Two elements of an update may go to one place.
TEST(CpuKinds, ScattersAlongColumnsRunInOneUnit) {
  GraphBuilder g;
  const v1::TensorMeta meta = g.Meta({100});
  const Ref x = g.Input(meta), at = g.Input({40}, kI64), y = g.Input({40});
  g.Output(g.Node("aten::index_add", {x, 0, at, y, 1}, meta));
  const Planned planned(std::move(g));
  int scatters = 0;
  for (const PlannedCpuNest& scatter : planned.nests()) {
    if (scatter.nest.shape != compiler::NestShape::kBlocked) continue;
    ++scatters;
    EXPECT_NE(scatter.plan.As<CpuRows>(), nullptr);
    EXPECT_THAT(Why(CanScheduleColumnBlocks(scatter.nest)), HasSubstr("store to one element"));
  }
  EXPECT_EQ(scatters, 1);
}

TEST(CpuKinds, LightReductionsHaveSeveralAccumulators) {
  EXPECT_EQ(Planned(Sum({64, 1000}, 1)).plan().CopiesAt(1), 4);
  EXPECT_EQ(Planned(Sum({64, 100}, 1)).plan().CopiesAt(1), 1);  // over before they pay
  EXPECT_EQ(Planned(Sum({64, 1000}, 1), v1::ISA_UNSPECIFIED).plan().CopiesAt(1), 1);
  EXPECT_EQ(Planned(Doubled({64, 1000})).plan().CopiesAt(1), 1);
  EXPECT_THAT(ToString(Planned(Sum({64, 1000}, 1)).plan()), HasSubstr("rows w16 tail copies4@1"));
}

// Short chains of additions are left whole, and so are columns whose loop would be slower in parts.
TEST(CpuKinds, LongChainsAreInParts) {
  const auto text = [](GraphBuilder graph) { return ToString(Planned(std::move(graph)).plan()); };
  EXPECT_THAT(text(Sum({64, 16384}, 1)), Not(HasSubstr("part")));
  EXPECT_THAT(text(Sum({64, 32768}, 1)), HasSubstr("copies4@1 part2048of0@1"));
  EXPECT_THAT(text(Sum({32768, 64}, 0)), HasSubstr("units256"));
  EXPECT_THAT(text(Sum({1024, 64}, 0)), Not(HasSubstr("units")));
  const auto middle = [](int rows) {
    GraphBuilder g;
    const Ref x = g.Input({40, rows, 64});
    return g.Output(
        g.Node("aten::sum.dim_IntList", {x, Ints({1}), false, nullptr}, g.Meta({40, 64})));
  };
  EXPECT_THAT(text(middle(256)), Not(HasSubstr("part")));
  EXPECT_THAT(text(middle(2000)), HasSubstr("part80of0@1"));
  EXPECT_THAT(text(middle(1999)), Not(HasSubstr("part")));
  EXPECT_THAT(text(middle(4999)), HasSubstr("part70of0@1"));
  // What does not round needs none.
  GraphBuilder g;
  const Ref x = g.Input({64, 32768});
  g.Output(g.Node("aten::amax", {x, Ints({1}), false}, g.Meta({64})));
  EXPECT_THAT(text(std::move(g)), Not(HasSubstr("part")));
}

TEST(CpuKinds, RowsForLaterPassesLieOnTheStackWhereTheyFindRoom) {
  // Two rows, of which the second may take half as much.
  EXPECT_EQ(Planned(SoftmaxOfTanh(64, 1000)).plan().stack_rows.size(), 2u);
  EXPECT_EQ(Planned(SoftmaxOfTanh(64, 16 << 10)).plan().stack_rows.size(), 1u);
  EXPECT_EQ(Planned(SoftmaxOfTanh(64, (16 << 10) + 1)).plan().stack_rows.size(), 0u);
}

TEST(CpuKinds, CostGrowsWithTheRow) {
  const int64_t cost = Planned(Sum({64, 500}, 1)).plan().cost;
  EXPECT_EQ(Planned(Sum({64, 1000}, 1)).plan().cost, 2 * cost);
  EXPECT_EQ(Planned(Doubled({64})).plan().cost, Planned(Doubled({6400})).plan().cost);
}

TEST(CpuKinds, WhatWholeVectorsLeaveIsATail) {
  EXPECT_FALSE(Planned(Sum({64, 512}, 1)).plan().has_tail);
  EXPECT_TRUE(Planned(Sum({64, 500}, 1)).plan().has_tail);
  EXPECT_FALSE(Planned(Sum({64, 500}, 1), v1::ISA_UNSPECIFIED).plan().has_tail);
  // The source does not know how long a flat nest is.
  EXPECT_TRUE(Planned(Doubled({64, 64})).plan().has_tail);
}

TEST(CpuPlans, TheVerifierSaysWhatIsBroken) {
  const Planned planned(SoftmaxOfTanh(64, 1000));
  const auto fault = [&](const auto& change) {
    compiler::CpuPlan plan = planned.plan();
    change(plan);
    return Why(VerifyCpuPlan(planned.nest(), plan));
  };
  using compiler::CpuPlan;
  EXPECT_EQ(fault([](CpuPlan&) {}), "");
  EXPECT_THAT(fault([](CpuPlan& p) { p.lanes = 0; }), HasSubstr("without lanes"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.cost = 0; }), HasSubstr("without work"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.kind = CpuFlat{.chunk = 100}; }), HasSubstr("chunks are"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.kind = CpuColumnBlocks{.columns = 8}; }),
              HasSubstr("blocks of columns are"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.has_tail = false; }), HasSubstr("leave elements"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.lanes = 1; }), HasSubstr("leave a tail"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.accumulator_copies[2] = 4; }), HasSubstr("what is no pass"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.chains.passes[1] = {.loop = 1, .iterations = 64}; }),
              HasSubstr("parts of a chain are not"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.chains.passes[1] = {.loop = 0, .iterations = 100}; }),
              HasSubstr("parts of a chain are not"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.chains.units = -1; }), HasSubstr("parts without units"));
  EXPECT_THAT(fault([](CpuPlan& p) { p.stack_rows.insert(99); }), HasSubstr("is in memory"));
}

}  // namespace cpu_kinds_test
}  // namespace tensord::testing
