// SPDX-License-Identifier: Apache-2.0
// Operators that go by indices, or along a dimension in order, beyond their numbers
// (decompose_golden_test.cc): which indices are checked, the gradient of an embedding, scans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/decompose/decompose_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace decompose_indices_test {

using decompose_testing::CountLoops;
using decompose_testing::Iota;
using decompose_testing::LibraryCall;
using decompose_testing::Lower;
using decompose_testing::LowerAndRun;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- Indices from data

// x[i] by an operator that takes a list of indices.
std::string IndexText(const char* op, compiler::LoweringOptions options = {}) {
  GraphBuilder g;
  const Ref x = g.Input({4, 2}), i = g.Input({3}, v1::DTYPE_INT64);
  g.Output(g.Node(op, {x, List({i})}, g.Meta({3, 2})));
  const auto graph = compiler::Import(g.graph());
  const auto program = compiler::LowerGraph(*graph, options);
  return program.ok() ? compiler::ToString(*program) : program.status().ToString();
}

TEST(Indices, AreCheckedWhereEagerDoes) {
  EXPECT_THAT(IndexText("aten::index.Tensor"), HasSubstr("< 4, checked, wraps"));
  EXPECT_THAT(IndexText("aten::_unsafe_index.Tensor"),
              AllOf(HasSubstr("indirect"), Not(HasSubstr("checked"))));
  EXPECT_THAT(IndexText("aten::index.Tensor", {.checks_data = false}),
              AllOf(HasSubstr("indirect"), Not(HasSubstr("checked"))));
}

TEST(Indices, NegativeOnesCountFromTheEndOnlyWhereTheyDoInEager) {
  GraphBuilder g;
  const Ref x = g.Input({4, 2}), i = g.Input({3, 2}, v1::DTYPE_INT64);
  g.Output(g.Node("aten::gather", {x, 0, i, false}, g.Meta({3, 2})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(compiler::ToString(*program),
              AllOf(HasSubstr("< 4, checked"), Not(HasSubstr("wraps"))));
}

// One place and no value broadcast together, to nothing, at which eager raises.
TEST(Indices, ThatGetNoValueAreTheLibrarys) {
  GraphBuilder g;
  const Ref x = g.Input({4}), i = g.Input({1}, v1::DTYPE_INT64), none = g.Input(Shape{0});
  g.Output(g.Node("aten::index_put", {x, List({i}), none, false}, g.Meta({4})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(LibraryCall(*program), "aten::index_put");
}

// Eager says nothing of tokens that have no gradient.
TEST(Indices, OfPaddingAreNotChecked) {
  for (const int padding : {-1, 1}) {
    GraphBuilder g;
    const Ref grad = g.Input({3, 2}), tokens = g.Input({3}, v1::DTYPE_INT64);
    g.Output(g.Node("aten::embedding_dense_backward", {grad, tokens, 5, padding, false},
                    g.Meta({5, 2})));
    const auto program = Lower(g);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_THAT(compiler::ToString(*program),
                HasSubstr(padding < 0 ? "< 5, checked\n" : "< 5, checked if %"));
  }
}

// ---- Embedding

// The gradient of a table of 6 rows and 2 columns, which is large by its hint.
GraphBuilder TableGradient(v1::DeviceType device, int tokens, int padding) {
  GraphBuilder g(device);
  const Dim rows = g.Symbol(/*hint=*/1 << 24);
  const Ref grad = g.Input({tokens, 2}), indices = g.Input({tokens}, v1::DTYPE_INT64);
  g.SizeInput(rows);
  return g.Output(g.Node("aten::embedding_dense_backward", {grad, indices, rows, padding, false},
                         g.Meta({rows, 2})));
}

// Written once or added to zeros: one gradient. Rows have none, one or several tokens; the last two
// tokens are no rows.
TEST(Embedding, GradientOfALargeTable) {
  const std::vector<double> tokens{4, 1, 4, 2, 4, 1, -7, 90};
  const int count = static_cast<int>(tokens.size());
  for (const int padding : {-1, 4, 2, 0}) {
    std::vector<double> expected(12, 0);
    for (int t = 0; t < count; ++t) {
      if (tokens[t] == padding) continue;
      const int row = static_cast<int>(std::clamp(tokens[t], 0.0, 5.0));
      for (int c = 0; c < 2; ++c) expected[2 * row + c] += Iota(2 * count)[2 * t + c];
    }
    for (const v1::DeviceType device : {v1::DEVICE_TYPE_CPU, v1::DEVICE_TYPE_CUDA}) {
      GraphBuilder g = TableGradient(device, count, padding);
      const auto results = LowerAndRun(
          g,
          {MakeTensor({count, 2}, Iota(2 * count)), MakeTensor({count}, tokens, v1::DTYPE_INT64)},
          {.symbols = {{0, 6}}});
      ASSERT_EQ(results.size(), 1u);
      EXPECT_EQ(results[0].Values(), expected) << device << ", padding " << padding;
    }
  }
}

// Which token of a row is chosen differs from run to run.
TEST(Embedding, GradientOfALargeTableIsDeterministicWhereAsked) {
  GraphBuilder g = TableGradient(v1::DEVICE_TYPE_CUDA, 8, -1);
  const auto graph = VerifiedImport(g.graph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto usual = compiler::LowerGraph(*graph);
  const auto deterministic = compiler::LowerGraph(*graph, {.deterministic = true});
  ASSERT_TRUE(usual.ok() && deterministic.ok());
  EXPECT_EQ(CountLoops(*usual), 3);
  EXPECT_EQ(CountLoops(*deterministic), 2);
}

// ---- Scans

TEST(Scans, OfWhatIsNoNumberAndOfOneLongRowOnAGpuAreTheLibrarys) {
  const auto call_of = [](v1::DeviceType device, v1::DType dtype, v1::DType sum,
                          const Shape& sizes = {4, 8}) {
    GraphBuilder g(device);
    const Ref x = g.Input(sizes, dtype);
    g.Output(g.Node("aten::cumsum", {x, 1, nullptr}, g.Meta(sizes, sum)));
    const auto program = Lower(g);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? LibraryCall(*program) : "";
  };
  constexpr auto kCpu = v1::DEVICE_TYPE_CPU, kCuda = v1::DEVICE_TYPE_CUDA;
  constexpr auto kReal = v1::DTYPE_FLOAT32, kComplex = v1::DTYPE_COMPLEX64;
  EXPECT_EQ(call_of(kCpu, kReal, kReal), "");
  EXPECT_EQ(call_of(kCpu, v1::DTYPE_BOOL, v1::DTYPE_INT64), "");
  EXPECT_EQ(call_of(kCpu, kComplex, kComplex), "aten::cumsum");
  EXPECT_EQ(call_of(kCuda, kReal, kReal), "");
  EXPECT_EQ(call_of(kCuda, kComplex, kComplex), "aten::cumsum");
  EXPECT_EQ(call_of(kCuda, kReal, kReal, {1, 1000000}), "aten::cumsum");
  EXPECT_EQ(call_of(kCuda, kReal, kReal, {1, 50000}), "");
  EXPECT_EQ(call_of(kCuda, kReal, kReal, {2, 1000000}), "");
  EXPECT_EQ(call_of(kCpu, kReal, kReal, {1, 1000000}), "");
}

// Eager's sums of float32 are of float64 on the CPU, of float32 on a GPU.
TEST(Scans, AccumulateInEagersTypes) {
  const auto type_of = [](v1::DeviceType device, v1::DType dtype) {
    GraphBuilder g(device);
    const Ref x = g.Input({4, 8}, dtype);
    g.Output(g.Node("aten::cumprod", {x, 1, nullptr}, g.Meta({4, 8}, dtype)));
    const auto program = Lower(g);
    EXPECT_TRUE(program.ok()) << program.status();
    const auto& op = std::get<compiler::LoopOp>(program->operations.at(0));
    for (const compiler::Inst& inst : op.block.insts) {
      if (inst.kind == compiler::InstKind::kScan) return std::pair(inst.dtype, inst.in_order);
    }
    return std::pair(v1::DTYPE_UNSPECIFIED, false);
  };
  constexpr auto kCpu = v1::DEVICE_TYPE_CPU, kCuda = v1::DEVICE_TYPE_CUDA;
  EXPECT_EQ(type_of(kCpu, v1::DTYPE_FLOAT32), std::pair(v1::DTYPE_FLOAT64, true));
  EXPECT_EQ(type_of(kCuda, v1::DTYPE_FLOAT32), std::pair(v1::DTYPE_FLOAT32, false));
  EXPECT_EQ(type_of(kCuda, v1::DTYPE_BFLOAT16), std::pair(v1::DTYPE_FLOAT32, false));
  EXPECT_EQ(type_of(kCuda, v1::DTYPE_FLOAT64), std::pair(v1::DTYPE_FLOAT64, false));
  EXPECT_EQ(type_of(kCuda, v1::DTYPE_INT64), std::pair(v1::DTYPE_INT64, false));
}

}  // namespace decompose_indices_test
}  // namespace tensord::testing
