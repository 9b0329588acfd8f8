// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/common_subexpressions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/rewrite_products.h"

namespace tensord::testing {
namespace common_subexpressions_test {

using compiler::Graph;

constexpr auto kHalf = v1::DTYPE_BFLOAT16;

Graph Rewritten(GraphBuilder& g, int count) {
  const Graph before = Imported(g);
  Graph graph = before;
  EXPECT_EQ(compiler::CommonSubexpressions(v1::Target(), &graph), count);
  ExpectSameOutputs(before, graph);
  return graph;
}

Ref Cast(GraphBuilder& g, Ref x) {
  return g.Node("aten::_to_copy", {x, kHalf, nullptr, nullptr, nullptr, false, nullptr},
                g.Meta({16, 8}, kHalf));
}

TEST(CommonSubexpressionsTest, AWeightIsCastOnce) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4, 8}, kHalf), y = g.Input({6, 8}, kHalf), w = g.Input({16, 8});
  const Ref a = g.Node("aten::t", {Cast(g, w)}, g.Meta({8, 16}, kHalf, {1, 8}));
  const Ref b = g.Node("aten::t", {Cast(g, w)}, g.Meta({8, 16}, kHalf, {1, 8}));
  g.Output(g.Node("aten::mm", {x, a}, g.Meta({4, 16}, kHalf)));
  g.Output(g.Node("aten::mm", {y, b}, g.Meta({6, 16}, kHalf)));
  EXPECT_EQ(LoopOperations(MustLower(Rewritten(g, 2))), 1);
}

TEST(CommonSubexpressionsTest, EveryArgumentCounts) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4, 8}), y = g.Input({4, 8});
  const auto sum = [&](Ref a, Ref b, double alpha) {
    const Ref s = g.Node("aten::add.Tensor", {a, b, alpha}, g.Meta({4, 8}));
    return g.Node("aten::mul.Tensor", {s, s}, g.Meta({4, 8}));
  };
  const Ref sums[] = {sum(x, y, 1), sum(y, x, 1), sum(x, y, 2)};
  Ref total = sums[0];
  for (const Ref s : {sums[1], sums[2]}) {
    total = g.Node("aten::sub.Tensor", {total, s, 1}, g.Meta({4, 8}));
  }
  g.Output(total);
  Rewritten(g, 0);
}

// Two results may be written to by whoever gets them.
TEST(CommonSubexpressionsTest, OutputsStayApart) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4, 8});
  const Ref a = g.Node("aten::neg", {x}, g.Meta({4, 8}));
  const Ref b = g.Node("aten::neg", {x}, g.Meta({4, 8}));
  g.Output(a).Output(g.Node("aten::view", {b, Ints({32})}, g.Meta({32})));
  Rewritten(g, 0);
}

TEST(CommonSubexpressionsTest, NotAcrossWrites) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4});
  const auto square = [&] { return g.Node("aten::mul.Tensor", {x, x}, g.Meta({4})); };
  const auto negated = [&](Ref r) { return g.Node("aten::neg", {r}, g.Meta({4})); };
  const Ref a = negated(square());
  g.Node("aten::copy_", {x, a, false}, g.Meta({4}));
  const Ref b = negated(square());
  g.Output(a).Output(b);
  Rewritten(g, 0);
}

TEST(CommonSubexpressionsTest, RandomNumbersStayApart) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4});
  const auto draw = [&] {
    return g.Node("aten::rand_like", {x, nullptr, nullptr, nullptr, nullptr, nullptr}, g.Meta({4}));
  };
  const Ref a = draw(), b = draw();
  g.Output(g.Node("aten::add.Tensor", {a, b, 1}, g.Meta({4})));
  Graph graph = Imported(g);
  EXPECT_EQ(compiler::CommonSubexpressions(v1::Target(), &graph), 0);
}

}  // namespace common_subexpressions_test
}  // namespace tensord::testing
