// SPDX-License-Identifier: Apache-2.0
// Changes to a graph are carried out at once: numbers move, uses follow, added nodes keep theirs.
#include "compiler/graph/editor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/graph/verify.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace editor_test {

using compiler::Graph;
using compiler::GraphEditor;
using compiler::ValueArg;
using compiler::ValueId;

TEST(GraphEditorTest, InsertsInFrontAndReplacesForOldReaders) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4}));
  g.Output(g.Node("aten::exp", {y}, g.Meta({4}))).Output(y);
  Graph graph = *VerifiedImport(g.graph());
  GraphEditor editor(&graph);
  EXPECT_EQ(editor.uses().Count({1, 0}), 2);
  // abs(neg(x)) in the place of neg(x), which the new node still reads.
  const ValueId added = editor.Insert(1, {.op = "aten::abs",
                                          .name = "added",
                                          .args = {ValueArg({1, 0})},
                                          .outputs = {editor.TypeOf({1, 0})}});
  editor.Replace({1, 0}, added);
  EXPECT_EQ(editor.Finish(), 1);
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[1].op, "aten::abs");
  EXPECT_EQ(graph.nodes[1].args[0].value, 1);  // neg
  EXPECT_EQ(graph.nodes[2].args[0].value, 2);  // abs
  EXPECT_EQ(graph.outputs[0].value, 3);
  EXPECT_EQ(graph.outputs[1].value, 2);
  EXPECT_TRUE(compiler::VerifyGraph(graph).ok());
}

TEST(GraphEditorTest, ArgumentsHaveNames) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("aten::add.Tensor", {x, 2.5, 3}, g.Meta({4})));
  Graph graph = *VerifiedImport(g.graph());
  EXPECT_EQ(compiler::Argument(graph.nodes[0], "other").real, 2.5);
  compiler::Argument(&graph.nodes[0], "alpha") = compiler::IntegerArg(1);
  EXPECT_TRUE(compiler::IsOne(compiler::Argument(graph.nodes[0], "alpha")));
  EXPECT_DEATH(compiler::Argument(graph.nodes[0], "beta"), "has no argument beta");
}

TEST(GraphEditorTest, NodesAreMadeByNames) {
  const compiler::TensorType type{.dtype = compiler::kFloat32};
  const compiler::Node node =
      compiler::MakeNode("aten::clone", "n", {{"self", ValueArg({0, 0})}}, type);
  ASSERT_EQ(node.args.size(), 2u);
  EXPECT_EQ(node.args[1].kind, compiler::ArgumentValue::kNone);  // memory_format
  const compiler::Node sum = compiler::MakeNode(
      "aten::add.Tensor", "n",
      {{"alpha", compiler::IntegerArg(3)}, {"other", ValueArg({1, 0})}, {"self", ValueArg({0, 0})}},
      type);
  EXPECT_EQ(sum.args[1].value, 1);
  EXPECT_TRUE(sum.args[2].integer.Is(3));
  EXPECT_DEATH(compiler::MakeNode("aten::clone", "n", {{"input", ValueArg({0, 0})}}, type),
               "has no argument input");
  EXPECT_DEATH(compiler::MakeNode("aten::clone", "n", {}, type), "lacks its argument self");
  EXPECT_DEATH(compiler::MakeNode("aten::no_such", "n", {}, type), "is no operator");
}

}  // namespace editor_test
}  // namespace tensord::testing
