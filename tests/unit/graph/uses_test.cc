// SPDX-License-Identifier: Apache-2.0
// Who reads what, which nodes run, and what shares memory.
#include "compiler/graph/uses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace uses_test {

using compiler::Graph;
using compiler::Uses;
using compiler::ValueId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Graph Imported(GraphBuilder& g) {
  auto graph = VerifiedImport(g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

ValueId Id(Ref ref) { return {static_cast<int>(ref.value), static_cast<int>(ref.output)}; }

TEST(UsesTest, CountsReadsOfNodesThatRun) {
  GraphBuilder g;
  const Ref x = g.Input({4, 8});
  const Ref square = g.Node("aten::mul.Tensor", {x, x}, g.Meta({4, 8}));       // node 0
  g.Node("aten::neg", {square}, g.Meta({4, 8}));                               // 1: for nobody
  const Ref sum = g.Node("aten::add.Tensor", {square, x, 1}, g.Meta({4, 8}));  // 2
  g.Output(sum).Output(square);
  const Graph graph = Imported(g);
  const Uses uses(graph);
  EXPECT_TRUE(uses.Runs(0));
  EXPECT_FALSE(uses.Runs(1));
  EXPECT_EQ(uses.Count(Id(x)), 3);
  EXPECT_THAT(uses.Readers(Id(x)), ElementsAre(0, 2));
  EXPECT_THAT(uses.Readers(Id(square)), ElementsAre(2, 3));  // 3: an output
  EXPECT_EQ(uses.LastReader(Id(square)), 3);
  EXPECT_EQ(uses.LastReader({2, 0}), -1);
  EXPECT_THAT(uses.Readers({17, 0}), IsEmpty());  // added later
}

TEST(UsesTest, EffectsRunForNobody) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4}));
  g.Node("aten::copy_", {x, y, false}, g.Meta({4}));                                    // 1
  g.Node("aten::randn", {Ints({4}), nullptr, nullptr, nullptr, nullptr}, g.Meta({4}));  // 2
  g.Node("aten::sym_constrain_range_for_size", {3, nullptr, nullptr},
         std::vector<v1::TensorMeta>{});  // 3
  g.Node("aten::neg", {x}, g.Meta({4}));  // 4
  const Graph graph = Imported(g);
  const Uses uses(graph);
  EXPECT_TRUE(uses.Runs(0) && uses.Runs(1) && uses.Runs(2));
  EXPECT_FALSE(uses.Runs(3) || uses.Runs(4));
}

TEST(UsesTest, LooksThroughViews) {
  GraphBuilder g;
  const Ref x = g.Input({4, 8});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4, 8}));
  const Ref t = g.Node("aten::t", {y}, g.Meta({8, 4}, v1::DTYPE_FLOAT32, {1, 8}));
  const Ref v = g.Node("aten::unsqueeze", {t, 0}, g.Meta({1, 8, 4}, v1::DTYPE_FLOAT32, {32, 1, 8}));
  const Ref z = g.Node("aten::exp", {y}, g.Meta({4, 8}));
  const Ref w = g.Node("aten::mm", {z, t}, g.Meta({4, 4}));
  g.Output(v).Output(w);
  const Graph graph = Imported(g);
  const Uses uses(graph);
  EXPECT_EQ(uses.Root(Id(v)), Id(y));
  EXPECT_EQ(uses.Root(Id(z)), Id(z));
  EXPECT_TRUE(uses.IsRootShared(Id(v)));
  EXPECT_TRUE(uses.IsGivenOut(Id(y)));
  EXPECT_FALSE(uses.IsGivenOut(Id(z)));
  EXPECT_TRUE(uses.NeedsEagerLayout(Id(y)));   // an output is a view of it
  EXPECT_FALSE(uses.NeedsEagerLayout(Id(z)));  // a product reads any strides
}

TEST(UsesTest, FindsWritesThroughViewsAndCopies) {
  GraphBuilder g;
  const Ref x = g.Input({4, 8}), y = g.Input({4, 8});
  const Ref v = g.Node("aten::view", {x, Ints({32})}, g.Meta({32}));                  // node 0
  const Ref n = g.Node("aten::neg", {v}, g.Meta({32}));                               // 1
  const Ref c = g.Node("aten::copy_", {v, n, false}, g.Meta({32}));                   // 2
  const Ref w = g.Node("aten::view", {c, Ints({4, 8})}, g.Meta({4, 8}));              // 3
  const Ref s = g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({4, 8}));                // 4
  g.Node("tensord::call_back", {0, List({x}), List({y}), Ints({})}, g.Meta({4, 8}));  // 5
  g.Output(s).Output(w);
  const Graph graph = Imported(g);
  const Uses uses(graph);
  for (const Ref written : {x, v, c, w}) {
    EXPECT_TRUE(uses.IsWrittenBetween(Id(written), 1, 3));
    EXPECT_TRUE(uses.IsWrittenBetween(Id(written), 3, 6));
    EXPECT_FALSE(uses.IsWrittenBetween(Id(written), 0, 2));
    EXPECT_FALSE(uses.IsWrittenBetween(Id(written), 3, 5));
  }
  EXPECT_FALSE(uses.IsWrittenBetween(Id(y), 0, 6));
  EXPECT_FALSE(uses.IsWrittenBetween(Id(n), 0, 6));
  EXPECT_FALSE(uses.IsWrittenBetween({17, 0}, 0, 6));  // added later
  EXPECT_TRUE(uses.ReadsTheSameAt(1, 2));
  EXPECT_FALSE(uses.ReadsTheSameAt(1, 3));
  EXPECT_FALSE(uses.ReadsTheSameAt(4, 6));
}

}  // namespace uses_test
}  // namespace tensord::testing
