// SPDX-License-Identifier: Apache-2.0
// An embedding's gradient that is added to another tensor: the same numbers, without a table of
// zeros.
#include "compiler/rewrite/embedding_sum.h"

#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_products.h"

namespace tensord::testing {
namespace embedding_sum_test {

constexpr v1::DType kI64 = v1::DTYPE_INT64, kI32 = v1::DTYPE_INT32, kF32 = v1::DTYPE_FLOAT32,
                    kBF16 = v1::DTYPE_BFLOAT16;

struct Case {
  int64_t padding = -1;
  bool embedding_first = false;
  v1::DType dtype = kF32;
  v1::DType tokens = kI64;
  int alpha = 1;
};

Ref Gradient(GraphBuilder& g, const Case& c) {
  const Ref grad = g.Input({2, 3, 4}, c.dtype), tokens = g.Input({2, 3}, c.tokens);
  return g.Node("aten::embedding_dense_backward", {grad, tokens, 7, c.padding, false},
                g.Meta({7, 4}, c.dtype));
}

GraphBuilder Sum(const Case& c) {
  GraphBuilder g;
  const Ref other = g.Input({7, 4}, c.dtype), embedding = Gradient(g, c);
  std::vector<Arg> args = {other, embedding, c.alpha};
  if (c.embedding_first) std::swap(args[0], args[1]);
  g.Output(g.Node("aten::add.Tensor", args, g.Meta({7, 4}, c.dtype)));
  return g;
}

class EmbeddingSum : public ::testing::TestWithParam<Case> {};

TEST_P(EmbeddingSum, SameNumbersInOneTable) {
  GraphBuilder g = Sum(GetParam());
  const compiler::Graph before = Imported(g);
  compiler::Graph after = Imported(g);
  EXPECT_EQ(compiler::EmbeddingSum({}, &after), 1);
  ExpectSameOutputs(before, after);
  // A table of narrow floats is summed in float32 and rounded at the end, with or without.
  const size_t rounds = GetParam().dtype == kBF16 ? 1 : 0;
  EXPECT_EQ(MustLower(after).operations.size(), 2 + rounds);  // a copy, and the rows
}

INSTANTIATE_TEST_SUITE_P(Forms, EmbeddingSum,
                         ::testing::Values(Case{}, Case{.padding = 3},
                                           Case{.embedding_first = true}, Case{.dtype = kBF16},
                                           Case{.tokens = kI32}));

// Beside tensors on a GPU, what is on the CPU is the library's, which lacks our operators.
TEST(EmbeddingSum, SumsOnTheCpuStayInAGraphForAGpu) {
  GraphBuilder g = Sum({});
  compiler::Graph graph = Imported(g);
  for (compiler::GraphInput& input : graph.inputs) input.tensor.device = v1::DEVICE_TYPE_CUDA;
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);
  for (compiler::Node& node : graph.nodes) node.outputs[0].device = v1::DEVICE_TYPE_CUDA;
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 1);
}

TEST(EmbeddingSum, WhatIsNoPlainSumStays) {
  GraphBuilder scaled = Sum({.alpha = 2});
  compiler::Graph graph = Imported(scaled);
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);

  GraphBuilder read_twice;
  const Ref other = read_twice.Input({7, 4}), embedding = Gradient(read_twice, {});
  read_twice.Output(
      read_twice.Node("aten::add.Tensor", {other, embedding, 1}, read_twice.Meta({7, 4})));
  read_twice.Output(embedding);
  graph = Imported(read_twice);
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);

  GraphBuilder broadcast;
  const Ref row = broadcast.Input({4}), table = Gradient(broadcast, {});
  broadcast.Output(broadcast.Node("aten::add.Tensor", {row, table, 1}, broadcast.Meta({7, 4})));
  graph = Imported(broadcast);
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);

  GraphBuilder wider;
  const Ref wide = wider.Input({7, 4}, kF32), narrow = Gradient(wider, {.dtype = kBF16});
  wider.Output(wider.Node("aten::add.Tensor", {wide, narrow, 1}, wider.Meta({7, 4})));
  graph = Imported(wider);
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);
}

TEST(EmbeddingSum, StaysBeforeWritesToItsOperands) {
  GraphBuilder g;
  const Ref other = g.Input({7, 4}), grad = g.Input({2, 3, 4}), tokens = g.Input({2, 3}, kI64),
            next = g.Input({2, 3, 4});
  const Ref table =
      g.Node("aten::embedding_dense_backward", {grad, tokens, 7, -1, false}, g.Meta({7, 4}));
  g.Node("aten::copy_", {grad, next, false}, g.Meta({2, 3, 4}));
  g.Output(g.Node("aten::add.Tensor", {other, table, 1}, g.Meta({7, 4})));
  compiler::Graph graph = Imported(g);
  EXPECT_EQ(compiler::EmbeddingSum({}, &graph), 0);
}

}  // namespace embedding_sum_test
}  // namespace tensord::testing
