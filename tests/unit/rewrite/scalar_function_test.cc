// SPDX-License-Identifier: Apache-2.0
#include "compiler/rewrite/scalar_function.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace scalar_function_test {

using compiler::Graph;
using compiler::ScalarFunctionOf;
using compiler::ValueId;

// Nodes behind a product of matrices.
struct Steps {
  GraphBuilder g;
  Ref product{0};

  Steps() {
    const Ref x = g.Input({6, 6}), w = g.Input({6, 6});
    product = g.Node("aten::mm", {x, w}, Meta());
  }
  v1::TensorMeta Meta() const { return g.Meta({6, 6}); }
  Ref Do(const char* op, const std::vector<Arg>& args) { return g.Node(op, args, Meta()); }
  Graph Built(Ref result) {
    g.Output(result);
    return *VerifiedImport(g.graph());
  }
};

ValueId Id(Ref ref) { return {static_cast<int>(ref.value), static_cast<int>(ref.output)}; }

TEST(ScalarFunctionTest, ArgumentsCountByTheirNames) {
  Steps s;
  const Ref scaled = s.Do("aten::sub.Tensor", {s.product, 3.0, 2});  // x - 2 * 3
  const Ref power = s.Do("aten::pow.Tensor_Scalar", {scaled, 2});
  const Ref sum = s.Do("aten::add.Tensor", {power, s.product, 4});  // + 4 x
  const Ref last = s.Do("aten::div.Tensor", {s.Do("aten::clamp_min", {sum, 5.0}), 2.0});
  const Graph graph = s.Built(last);
  const auto function = ScalarFunctionOf(graph, Id(last));
  ASSERT_TRUE(function.has_value());
  EXPECT_EQ(function->argument, Id(s.product));
  EXPECT_EQ(function->nodes.size(), 5u);
  for (const double x : {-2.0, 0.5, 7.0}) {
    const double expected = std::max((x - 6) * (x - 6) + 4 * x, 5.0) / 2;
    EXPECT_DOUBLE_EQ(Evaluate(graph, *function, Id(last), x), expected);
  }
}

TEST(ScalarFunctionTest, ReshapesKeepTheOrderOfElements) {
  Steps s;
  const Ref flat = s.g.Node("aten::view", {s.product, Ints({36})}, s.g.Meta({36}));
  const Ref last = s.g.Node("aten::relu", {flat}, s.g.Meta({36}));
  const Graph graph = s.Built(last);
  const auto function = ScalarFunctionOf(graph, Id(last));
  ASSERT_TRUE(function.has_value());
  EXPECT_EQ(function->argument, Id(s.product));
}

// A transpose of a square has as many elements of the same sizes, in another order.
TEST(ScalarFunctionTest, OtherViewsEndIt) {
  Steps s;
  const Ref t = s.g.Node("aten::t", {s.product}, s.g.Meta({6, 6}, v1::DTYPE_FLOAT32, {1, 6}));
  const Ref last = s.Do("aten::add.Tensor", {s.product, t, 1});
  EXPECT_FALSE(ScalarFunctionOf(s.Built(last), Id(last)).has_value());
}

TEST(ScalarFunctionTest, OfOneValueWithoutBroadcasting) {
  Steps two;
  const Ref other = two.Do("aten::exp", {two.product});
  const Ref sum = two.Do("aten::add.Tensor", {two.product, other, 1});
  EXPECT_FALSE(ScalarFunctionOf(two.Built(sum), Id(sum)).has_value());
  Steps row;
  const Ref first = row.g.Node("aten::select.int", {row.product, 0, 0}, row.g.Meta({6}));
  const Ref broadcast = row.Do("aten::mul.Tensor", {row.product, first});
  EXPECT_FALSE(ScalarFunctionOf(row.Built(broadcast), Id(broadcast)).has_value());
}

TEST(ScalarFunctionTest, GeluIsTheTanhForm) {
  for (const bool tanh : {true, false}) {
    Steps s;
    const Ref last = s.Do("aten::gelu", {s.product, tanh ? "tanh" : "none"});
    const Graph graph = s.Built(last);
    const auto function = ScalarFunctionOf(graph, Id(last));
    ASSERT_EQ(function.has_value(), tanh);
    if (!tanh) continue;
    EXPECT_NEAR(Evaluate(graph, *function, Id(last), 1.0), 0.8411919906, 1e-9);
  }
}

}  // namespace scalar_function_test
}  // namespace tensord::testing
