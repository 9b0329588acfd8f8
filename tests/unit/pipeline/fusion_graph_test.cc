// SPDX-License-Identifier: Apache-2.0
// What a program says of its steps: which nodes and lines they came from, and why they are apart.
#include "compiler/plan/fusion_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace fusion_graph_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::FusionGraph FusionOf(const GraphBuilder& builder) {
  GraphBuilder copy = builder;
  v1::CompileJob job;
  *job.mutable_graph() = copy.graph();
  job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  const auto result = compiler::Compile(job);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->fusion().steps_size() > 0, result->artifact().steps_size() > 0);
  return result->fusion();
}

std::vector<std::string> NodesOf(const v1::FusionGraph& fusion, int step) {
  std::vector<std::string> names;
  for (const uint32_t node : fusion.steps(step).nodes()) {
    names.push_back(fusion.nodes(static_cast<int>(node)).name());
  }
  return names;
}

TEST(FusionGraph, StepsNameTheirNodesAndLines) {
  GraphBuilder g;
  const Ref x = g.Input({64, 32}), w = g.Input({32, 32});
  const Ref product = g.Node("aten::mm", {x, w}, g.Meta({64, 32}));
  const Ref bent = g.Node("aten::tanh", {product}, g.Meta({64, 32}));
  g.Output(g.Node("aten::neg", {bent}, g.Meta({64, 32})));
  g.graph().mutable_nodes(0)->set_source("model.py:1 in forward");
  g.graph().mutable_nodes(0)->set_line("y = x @ w");
  g.graph().mutable_nodes(1)->set_source("model.py:2 in forward");
  g.graph().mutable_nodes(1)->set_line("return -y.tanh()");
  g.graph().mutable_nodes(2)->set_source("model.py:2 in forward");
  const v1::FusionGraph fusion = FusionOf(g);

  ASSERT_EQ(fusion.steps_size(), 2);
  EXPECT_EQ(fusion.steps(0).call(), "aten::mm");
  EXPECT_THAT(NodesOf(fusion, 0), ElementsAre("n0"));
  ASSERT_TRUE(fusion.steps(1).has_kernel());
  EXPECT_EQ(fusion.steps(1).kernel(), 0u);
  EXPECT_THAT(NodesOf(fusion, 1), ElementsAre("n1", "n2"));
  EXPECT_EQ(fusion.nodes(1).op(), "aten::tanh");
  ASSERT_EQ(fusion.lines_size(), 2);
  EXPECT_EQ(fusion.lines(1).text(), "return -y.tanh()");
  EXPECT_EQ(fusion.nodes(1).line(), 1u);
  EXPECT_EQ(fusion.nodes(2).line(), 1u);

  ASSERT_EQ(fusion.edges_size(), 1);
  EXPECT_EQ(fusion.edges(0).from(), 0u);
  EXPECT_EQ(fusion.edges(0).to(), 1u);
  EXPECT_EQ(fusion.edges(0).bytes(), 64u * 32 * 4);
  EXPECT_EQ(fusion.edges(0).why(), "a library call");
  EXPECT_FALSE(fusion.edges(0).reads());
}

// The sum of all is known when every element has been read, and each is divided by it.
TEST(FusionGraph, KernelsThatShareMemorySayWhyTheyAreTwo) {
  GraphBuilder g;
  const Ref x = g.Input({1024, 1024});
  const Ref bent = g.Node("aten::tanh", {x}, g.Meta({1024, 1024}));
  const Ref sums =
      g.Node("aten::sum.dim_IntList", {bent, Ints({0}), true, nullptr}, g.Meta({1, 1024}));
  const Ref turned = g.Node("aten::transpose.int", {bent, 0, 1},
                            g.Meta({1024, 1024}, v1::DTYPE_FLOAT32, {1, 1024}));
  g.Output(g.Node("aten::cumsum", {turned, 0, nullptr}, g.Meta({1024, 1024})));
  g.Output(sums);
  const v1::FusionGraph fusion = FusionOf(g);
  ASSERT_GT(fusion.steps_size(), 1);
  ASSERT_GT(fusion.edges_size(), 0);
  for (const v1::FusionEdge& edge : fusion.edges()) {
    EXPECT_LT(edge.from(), edge.to());
    EXPECT_LT(edge.to(), static_cast<uint32_t>(fusion.steps_size()));
    EXPECT_GT(edge.bytes(), 0u);
    EXPECT_NE(edge.why(), "");
    EXPECT_THAT(edge.why(), Not(HasSubstr("library")));
  }
}

TEST(FusionGraph, OneKernelHasNoEdges) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512});
  g.Output(g.Node("aten::_softmax", {x, -1, false}, g.Meta({64, 512})));
  const v1::FusionGraph fusion = FusionOf(g);
  EXPECT_EQ(fusion.steps_size(), 1);
  EXPECT_EQ(fusion.edges_size(), 0);
  EXPECT_EQ(fusion.lines_size(), 0);
}

}  // namespace fusion_graph_test
}  // namespace tensord::testing
