// SPDX-License-Identifier: Apache-2.0
// Graphs of symbolic sizes: what follows from the graph and its guards, and what only a call tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {
namespace lower_graph_symbols_test {

using compiler::BufferKind;
using compiler::Program;
using lower_graph_testing::LibraryCalls;
using lower_graph_testing::Lower;
using lower_graph_testing::ValuesOf;
using ::testing::ElementsAre;

TEST(LowerGraphSymbolsTest, SymbolicShapes) {
  GraphBuilder g;
  const Dim s = g.Symbol(4);
  const Ref x = g.Input({s, 6});
  const Ref v = g.Node("aten::view", {x, Ints({-1, 3})}, g.Meta({s * 2, 3}));
  const Ref part = g.Node("aten::slice.Tensor", {v, 0, 1, INT64_MAX, 1}, g.Meta({s * 2 + (-1), 3}));
  const Ref padded =
      g.Node("aten::constant_pad_nd", {part, Ints({0, 0, 1, 0}), 0.0}, g.Meta({s * 2, 3}));
  const Ref two = g.Node("aten::cat", {List({padded, v}), 0}, g.Meta({s * 4, 3}));
  const Ref i = g.Node("aten::arange.start_step", {0, s * 4, 1, nullptr, nullptr, nullptr, nullptr},
                       g.Meta({s * 4}, v1::DTYPE_INT64));
  const Ref column = g.Node("aten::unsqueeze", {i, 1}, g.Meta({s * 4, 1}, v1::DTYPE_INT64));
  g.Output(g.Node("aten::add.Tensor", {two, column, 1}, g.Meta({s * 4, 3})));
  std::vector<double> values;
  for (int k = 0; k < 24; ++k) values.push_back(k);
  const std::vector<double> result = ValuesOf(g, {MakeTensor({4, 6}, values)});
  ASSERT_EQ(result.size(), 48u);
  EXPECT_EQ(result[0], 0);      // padded
  EXPECT_EQ(result[3], 3 + 1);  // row 1 of the padded half is row 1 of v
  EXPECT_EQ(result[47], 23 + 15);
}

// As many as the step's value in each call says, not as at capture.
TEST(LowerGraphSymbolsTest, SlicesTakeSymbolicSteps) {
  GraphBuilder g;
  const Dim n = g.Symbol(/*hint=*/2);
  g.SizeInput(n);
  const Ref x = g.Input({12});
  const Dim length = FloorDiv(n + 11, n);
  g.Output(
      g.Node("aten::slice.Tensor", {x, 0, 0, 12, n}, g.Meta({length}, v1::DTYPE_FLOAT32, {n})));
  const Program program = Lower(g);
  const auto& view = program.outputs[0].view;
  EXPECT_EQ(view.sizes[0], sym::CeilDiv(sym::Expr(12), sym::Expr::Size(0, 2, 2)));
}

// What is equal at capture is what the job's guards leave open.
TEST(LowerGraphSymbolsTest, SlicesAtTheHintOfASizeServeLargerOnes) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/8);
  const Ref x = g.Input({s});
  g.Output(g.Node("aten::slice.Tensor", {x, 0, 0, 8, 1}, g.Meta({8})));
  g.Output(g.Node("aten::slice.Tensor", {x, 0, 8, s, 1}, g.Meta({s + -8})));
  const Program program = Lower(g);
  const sym::Expr size = sym::Expr::Size(0, 2, 8);
  EXPECT_EQ(program.outputs[0].view.sizes[0], sym::Expr(8));
  EXPECT_EQ(program.outputs[1].view.sizes[0], size - 8);
}

// torch's strides of a size that may be 0 are those of elements wherever there are any.
TEST(LowerGraphSymbolsTest, ResultsOfASizeThatMayBeNoneStillShareMemory) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/8), n = s + -2, least = MakeDim(v1::SymOp::MAX, 1, n);
  const Ref x = g.Input({s, s});
  const Ref part = g.Node("aten::slice.Tensor", {x, 1, 1, s + -1, 1},
                          g.Meta({s, n}, v1::DTYPE_FLOAT32, {s, 1}, 1));
  const v1::TensorMeta type = g.Meta({s, n}, v1::DTYPE_FLOAT32, {least, 1});
  const Ref y = g.Node("aten::sin", {part}, type);
  g.Output(y).Output(g.Node("aten::squeeze.dim", {y, 1}, type));
  g.Output(g.Node("aten::select.int", {y, 1, 0}, g.Meta({s}, v1::DTYPE_FLOAT32, {least})));
  const Program program = Lower(g);
  EXPECT_EQ(program.operations.size(), 1u);
  const sym::Expr size = sym::Expr::Size(0, 2, 8);
  for (const auto& output : program.outputs) {
    EXPECT_EQ(output.view.buffer, program.outputs[0].view.buffer);
    EXPECT_EQ(output.view.strides[0], sym::Max(1, size - 2));
  }
  EXPECT_EQ(program.buffers[program.outputs[0].view.buffer].strides[0], size - 2);
}

// How a view lies follows from the graph where symbolic sizes do not tell.
TEST(LowerGraphSymbolsTest, ResultsInShapesThatGuardsHoldShareMemory) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/12), rows = FloorDiv(s, 3);
  const Ref x = g.Input({s});
  const Ref y = g.Node("aten::sin", {x}, g.Meta({s}));
  g.Output(y).Output(g.Node("aten::view", {y, Ints({rows, 3})}, g.Meta({rows, 3})));
  g.Output(g.Node("aten::view", {x, Ints({rows, 3})}, g.Meta({rows, 3})));
  const Program program = Lower(g);
  EXPECT_EQ(program.operations.size(), 1u);
  EXPECT_EQ(program.outputs[0].view.buffer, program.outputs[1].view.buffer);
  EXPECT_EQ(program.buffers[program.outputs[2].view.buffer].kind, BufferKind::kInput);
  EXPECT_TRUE(program.outputs[1].view.strides[0].Is(3));
}

// The library takes what code of ours would have to know.
TEST(LowerGraphSymbolsTest, CodeIsNotMadeForOneValueOfAnArgument) {
  GraphBuilder g;
  const Dim n = g.Symbol(/*hint=*/3);
  g.SizeInput(n);
  const Ref x = g.Input({8});
  g.Output(
      g.Node("aten::unfold", {x, 0, n, 1}, g.Meta({n * -1 + 9, n}, v1::DTYPE_FLOAT32, {1, 1})));
  EXPECT_THAT(LibraryCalls(Lower(g)), ElementsAre("aten::unfold_copy"));
}

TEST(LowerGraphSymbolsTest, SizesThatAGuardHoldsEqualFitEachOther) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/8), r = g.Symbol(/*hint=*/5);
  g.Input({s, r});
  const Ref grad = g.Input({s * r, 7}), output = g.Input({40, 7});
  g.Output(g.Node("aten::_softmax_backward_data", {grad, output, 1, v1::DTYPE_FLOAT32},
                  g.Meta({s * r, 7})));
  EXPECT_THAT(LibraryCalls(Lower(g)), ElementsAre());
}

TEST(LowerGraphSymbolsTest, SizesThatDataDecidesFitEachOther) {
  GraphBuilder g;
  const Dim u = g.DataSymbol(/*hint=*/4096), v = g.DataSymbol(/*hint=*/4096);
  const Ref x = g.Input({10, 3}), a = g.Input({u}), b = g.Input({v});
  const std::vector<v1::TensorMeta> parts = {g.Meta({u, 3}),
                                             g.Meta({v, 3}, v1::DTYPE_FLOAT32, {}, u * 3)};
  const Ref split = g.Node("aten::split_with_sizes", {x, Ints({u, v}), 0}, parts);
  g.Output(g.Node("aten::sin", {split.result(1)}, g.Meta({v, 3})));
  g.Output(g.Node("aten::mul.Tensor", {a, b}, g.Meta({u})));
  EXPECT_THAT(LibraryCalls(Lower(g)), ElementsAre());
}

TEST(LowerGraphSymbolsTest, SlicesWhoseEndDataDecides) {
  GraphBuilder g;
  const Dim u = g.DataSymbol(/*hint=*/4096);
  g.SizeInput(u);
  const Ref x = g.Input({10});
  g.Output(g.Node("aten::slice.Tensor", {x, 0, 0, u, 1}, g.Meta({u})));
  g.Output(g.Node("aten::slice.Tensor", {x, 0, u + -5, 10, 1}, g.Meta({u * -1 + 15})));
  const Program program = Lower(g);
  EXPECT_EQ(program.outputs[0].view.sizes[0],
            sym::Min(sym::Expr(10), sym::Expr::Size(0, 0, 4096, /*from_data=*/true)));
  // Whether u - 5 counts from the end nothing tells.
  EXPECT_THAT(LibraryCalls(program), ElementsAre("aten::slice_copy.Tensor"));
}

}  // namespace lower_graph_symbols_test
}  // namespace tensord::testing
