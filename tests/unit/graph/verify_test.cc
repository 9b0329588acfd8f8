// SPDX-License-Identifier: Apache-2.0
// What a graph must keep behind import and behind every rewrite.
#include "compiler/graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "compiler/graph/arguments.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace verify_test {

using compiler::Argument;
using compiler::Graph;
using ::testing::HasSubstr;

// add(neg(x), x, alpha=1)
Graph Sound() {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4}));
  g.Output(g.Node("aten::add.Tensor", {y, x, 1}, g.Meta({4})));
  return *VerifiedImport(g.graph());
}

std::string ErrorOf(const std::function<void(Graph&)>& damage) {
  Graph graph = Sound();
  EXPECT_TRUE(compiler::VerifyGraph(graph).ok());
  damage(graph);
  const absl::Status status = compiler::VerifyGraph(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(VerifyGraphTest, ReferencesPointBackToWhatIsThere) {
  EXPECT_THAT(ErrorOf([](Graph& g) { Argument(&g.nodes[0], "self").value = 2; }),
              HasSubstr("node 'n0' (aten::neg): refers to a value that does not come before it"));
  EXPECT_THAT(ErrorOf([](Graph& g) { Argument(&g.nodes[1], "self").output = 1; }),
              HasSubstr("node 'n1'"));
  EXPECT_THAT(ErrorOf([](Graph& g) { g.outputs[0].value = 3; }), HasSubstr("output 0: "));
}

TEST(VerifyGraphTest, TypesAreComplete) {
  EXPECT_THAT(ErrorOf([](Graph& g) { g.nodes[0].outputs[0].strides.clear(); }),
              HasSubstr("node 'n0' (aten::neg): result 0 has no complete type"));
  EXPECT_THAT(ErrorOf([](Graph& g) { g.inputs[0].tensor.device = {}; }),
              HasSubstr("input 0: has no complete type"));
}

TEST(VerifyGraphTest, ArgumentsFitTheSchema) {
  EXPECT_THAT(ErrorOf([](Graph& g) { g.nodes[1].args.pop_back(); }),
              HasSubstr("node 'n1' (aten::add.Tensor): takes 3 arguments, but has 2"));
  EXPECT_THAT(ErrorOf([](Graph& g) { Argument(&g.nodes[1], "alpha") = g.outputs[0]; }),
              HasSubstr("refers to a value"));
  EXPECT_THAT(
      ErrorOf([](Graph& g) { Argument(&g.nodes[1], "alpha") = compiler::ValueArg({0, 0}); }),
      HasSubstr("argument 'alpha' must be a number, but is a tensor"));
  EXPECT_THAT(ErrorOf([](Graph& g) { Argument(&g.nodes[0], "self") = {}; }),
              HasSubstr("argument 'self' must be a tensor, but is none"));
}

TEST(VerifyGraphTest, OnlyInputsAreWritten) {
  EXPECT_THAT(ErrorOf([](Graph& g) { g.nodes[0].op = "aten::neg_"; }),
              HasSubstr("writes to its arguments"));
  EXPECT_THAT(ErrorOf([](Graph& g) { g.nodes[0].op = "tensord::nothing"; }),
              HasSubstr("unknown operator"));
  GraphBuilder g;
  const Ref x = g.Input({4, 4});
  const Ref t = g.Node("aten::t", {x}, g.Meta({4, 4}, v1::DTYPE_FLOAT32, {1, 4}));
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4, 4}));
  g.Node("aten::copy_", {t, y, false}, g.Meta({4, 4}, v1::DTYPE_FLOAT32, {1, 4}));
  EXPECT_TRUE(VerifiedImport(g.graph()).ok());  // a view of an input
  g.Node("aten::copy_", {y, x, false}, g.Meta({4, 4}));
  EXPECT_THAT(std::string(VerifiedImport(g.graph()).status().message()),
              HasSubstr("only inputs may be written"));
}

}  // namespace verify_test
}  // namespace tensord::testing
