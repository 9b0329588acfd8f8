// SPDX-License-Identifier: Apache-2.0
// A graph's text: a line a value, with the names of arguments, types and strides.
#include "compiler/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace text_test {

TEST(GraphTextTest, ALineForEachValue) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  const Ref x = g.Input({s, 4});
  const Ref t = g.Node("aten::transpose.int", {x, 0, 1}, g.Meta({4, s}, v1::DTYPE_FLOAT32, {1, 4}));
  g.Node("aten::add.Tensor", {x, 1.5, 1}, g.Meta({s, 4}));
  g.Output(g.Node("aten::foo", {List({t, nullptr}), "how", true}, g.Meta({4}))).Output(nullptr);
  const auto graph = VerifiedImport(g.graph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(compiler::ToString(*graph),
            "%0 = input x0: float32[s0, 4] strides [4, 1] cpu\n"
            "%1 = aten::transpose.int(self=%0, dim0=0, dim1=1): float32[4, s0] strides [1, 4] cpu"
            "  # n0\n"
            "%2 = aten::add.Tensor(self=%0, other=1.5, alpha=1): float32[s0, 4] strides [4, 1] cpu"
            "  # n1, not needed\n"
            "%3 = aten::foo([%1, none], 'how', true): float32[4] strides [1] cpu  # n2\n"
            "return %3, none\n");
}

}  // namespace text_test
}  // namespace tensord::testing
