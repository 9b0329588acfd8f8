// SPDX-License-Identifier: Apache-2.0
// The better ways that CUDA has to some operations on vectors: a graph for each line of their
// table, with what its kernel calls then and what it calls no longer.
#include <gmock/gmock.h>

#include <set>
#include <utility>

#include "compiler/codegen/cuda/body.h"
#include "compiler/pipeline.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace special_compute_test {

using compiler::CudaBody;
using compiler::Op;
namespace ir = compiler::ir;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::Not;

constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kI64 = v1::DTYPE_INT64, kBool = v1::DTYPE_BOOL;
constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;
constexpr int kRows = 6, kColumns = 64;

Ref Random(GraphBuilder& g, const std::string& op) {
  const Ref seed = g.Input(Shape{}, kI64);
  return g.Node(op, {seed, Ints({kRows, kColumns}), kF32, kCuda, 0}, g.Meta({kRows, kColumns}));
}
GraphBuilder Numbers(const std::string& op) {
  GraphBuilder g(kCuda);
  return g.Output(Random(g, op));
}
GraphBuilder RandomCompared(const std::string& op) {
  GraphBuilder g(kCuda);
  const Ref random = Random(g, "tensord::philox_uniform");
  return g.Output(g.Node(op, {random, 0.25}, g.Meta({kRows, kColumns}, kBool)));
}
// Two parts side by side, of whole vectors.
GraphBuilder Concatenated() {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({kRows, kColumns}), y = g.Input({kRows, kColumns / 2 + 8});
  return g.Output(g.Node("aten::cat", {List({x, y}), 1}, g.Meta({kRows, kColumns * 3 / 2 + 8})));
}
// Zeros before the columns, whole vectors of them.
GraphBuilder Padded() {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({kRows, kColumns});
  return g.Output(
      g.Node("aten::constant_pad_nd", {x, Ints({12, 0}), 0}, g.Meta({kRows, kColumns + 12})));
}
// Which of a row's columns its number names.
Ref IsNamed(GraphBuilder& g, const Ref& names) {
  const Ref columns =
      g.Node("prims::iota", {kColumns, 0, 1, kI64, kCuda, false}, g.Meta({kColumns}, kI64));
  return g.Node("aten::eq.Tensor", {columns, names}, g.Meta({kRows, kColumns}, kBool));
}
GraphBuilder Named() {
  GraphBuilder g(kCuda);
  const Ref names = g.Input({kRows, 1}, kI64);
  return g.Output(IsNamed(g, names));
}
GraphBuilder LessAtNamed() {
  GraphBuilder g(kCuda);
  const v1::TensorMeta meta = g.Meta({kRows, kColumns});
  const Ref x = g.Input(meta), amount = g.Input({kRows, 1}), names = g.Input({kRows, 1}, kI64);
  const Ref less = g.Node("aten::where.ScalarOther", {IsNamed(g, names), amount, 0.0}, meta);
  return g.Output(g.Node("aten::sub.Tensor", {x, less, 1}, meta));
}

struct Case {
  Op op;
  std::string form;
  GraphBuilder graph;
  std::string text;        // of the kernel's IR, a regular expression
  std::string instead_of;  // a function that it does not call
};

std::vector<Case> Cases() {
  const std::string random = "random comparison", common = "common comparison";
  return {
      {Op::k_lt, random, RandomCompared("aten::lt.Scalar"), "philox_at_least_run<W>", "lt"},
      {Op::k_lt, common, Concatenated(), R"(broadcast<W>\(\(.* < 0\)\))", "lt"},
      {Op::k_ge, random, RandomCompared("aten::ge.Scalar"), "philox_at_least_run<W>", "ge"},
      {Op::k_ge, common, Padded(), R"(broadcast<W>\(\(.* >= 0\)\))", "ge"},
      {Op::k_eq, "equal index", Named(), "equal_lane<W>", "eq"},
      {Op::k_sub, "subtraction at an index", LessAtNamed(), R"(sub_at\()", "where"},
      {Op::k_philox_uniform, "random run", Numbers("tensord::philox_uniform"),
       "philox_uniform_run<W>", "philox_uniform"},
      {Op::k_philox_normal, "random run", Numbers("tensord::philox_normal"), "philox_normal_run<W>",
       "philox_normal"},
  };
}

ir::Kernel KernelOf(GraphBuilder graph) {
  v1::CompileJob job;
  *job.mutable_graph() = graph.graph();
  job.mutable_target()->mutable_cuda()->set_sm(90);
  compiler::CompileState state{.job = &job};
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(state.kernels.size(), 1u);
  return state.kernels.empty() ? ir::Kernel() : state.kernels[0].ir;
}

TEST(SpecialCompute, EachLineOfTheTableIsSelected) {
  for (const Case& c : Cases()) {
    const ir::Kernel kernel = KernelOf(c.graph);
    EXPECT_THAT(ir::ToString(kernel), ContainsRegex(c.text)) << c.form;
    EXPECT_THAT(CallsOf(kernel), Not(Contains(c.instead_of))) << c.form;
  }
}

TEST(SpecialCompute, EachLineOfTheTableHasACase) {
  std::multiset<std::pair<Op, std::string>> lines, cases;
  for (const CudaBody::Selection& line : CudaBody::Selections()) lines.emplace(line.op, line.form);
  for (const Case& c : Cases()) cases.emplace(c.op, c.form);
  EXPECT_EQ(lines, cases);
}

// What is compared is the same for no vector.
TEST(SpecialCompute, OtherOperandsAreComparedLaneByLane) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input({kRows, kColumns});
  g.Output(g.Node("aten::lt.Scalar", {x, 0.25}, g.Meta({kRows, kColumns}, kBool)));
  EXPECT_THAT(CallsOf(KernelOf(std::move(g))), Contains("lt"));
}

}  // namespace special_compute_test
}  // namespace tensord::testing
