// SPDX-License-Identifier: Apache-2.0
// What a lowered graph gives back: outputs in the strides and types that eager has, which of them
// share memory, and inputs that it writes to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "compiler/graph/layout.h"
#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {
namespace lower_graph_outputs_test {

using compiler::BufferKind;
using compiler::Program;
using lower_graph_testing::LibraryCalls;
using lower_graph_testing::Lower;
using ::testing::ElementsAre;

TEST(LowerGraphOutputsTest, OutputsHaveTheDeclaredStrides) {
  GraphBuilder g;
  const Ref x = g.Input({2, 3});
  const v1::TensorMeta transposed = g.Meta({2, 3}, v1::DTYPE_FLOAT32, {1, 2});
  g.Output(g.Node("aten::neg", {x}, transposed));                               // dense
  g.Output(g.Node("aten::t", {x}, g.Meta({3, 2}, v1::DTYPE_FLOAT32, {1, 3})));  // a view
  const Ref row = g.Node("aten::sum.dim_IntList", {x, Ints({0}), true, nullptr}, g.Meta({1, 3}));
  g.Output(g.Node("aten::expand", {row, Ints({2, 3}), false},
                  g.Meta({2, 3}, v1::DTYPE_FLOAT32, {0, 1})));  // spread
  g.Output(nullptr).Output(7);
  const Program program = Lower(g);
  const auto strides = [&](int i) {
    std::vector<int64_t> values;
    for (const auto& s : program.outputs[i].view.strides) values.push_back(sym::Hint(s));
    return values;
  };
  EXPECT_THAT(strides(0), ElementsAre(1, 2));
  EXPECT_TRUE(program.buffers[program.outputs[0].view.buffer].returned);
  EXPECT_THAT(strides(1), ElementsAre(1, 3));
  EXPECT_EQ(program.buffers[program.outputs[1].view.buffer].kind, BufferKind::kInput);
  EXPECT_THAT(strides(2), ElementsAre(0, 1));
  std::vector<HostTensor> inputs = {MakeTensor({2, 3}, {1, 2, 3, 4, 5, 6})};
  const auto outputs = Interpret(program, inputs);
  EXPECT_THAT(outputs[0].Values(), ElementsAre(-1, -2, -3, -4, -5, -6));
  EXPECT_THAT(outputs[1].Values(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(outputs[2].Values(), ElementsAre(5, 7, 9, 5, 7, 9));
  EXPECT_EQ(program.outputs[3].kind, compiler::ProgramOutput::kNone);
  EXPECT_TRUE(program.outputs[4].integer.Is(7));
}

// What an output is made of need not wait for the call's end, where that is more than the output;
// numbers that are widened wait.
TEST(LowerGraphOutputsTest, OutputsOfMoreThatIsComputedAreMadeWhereTheyAreCaptured) {
  for (const bool widens : {false, true}) {
    GraphBuilder g;
    const auto narrow = v1::DTYPE_BFLOAT16;
    const Ref x = g.Input({8, 8}, narrow);
    const Ref product = g.Node("aten::mm", {x, x}, g.Meta({8, 8}, narrow));
    const Ref made =
        widens ? g.Node("aten::_to_copy",
                        {product, v1::DTYPE_FLOAT32, nullptr, nullptr, nullptr, false, nullptr},
                        g.Meta({8, 8}))
               : g.Node("aten::le.Scalar", {product, 0}, g.Meta({8, 8}, v1::DTYPE_BOOL));
    g.Output(g.Node("aten::mm", {product, product}, g.Meta({8, 8}, narrow))).Output(made);
    const Program program = Lower(g);
    ASSERT_EQ(program.operations.size(), 3u);
    const bool is_last = !std::holds_alternative<compiler::ExternOp>(program.operations.back());
    EXPECT_EQ(is_last, widens);
  }
}

// Outputs that are one memory in eager are one buffer, whatever types they show it as.
TEST(LowerGraphOutputsTest, OutputsShareMemoryAsOtherTypes) {
  GraphBuilder g;
  const Ref x = g.Node("aten::neg", {g.Input({4, 2})}, g.Meta({4, 2}));
  const Ref bits =
      g.Node("aten::view.dtype", {x, v1::DTYPE_INT32}, g.Meta({4, 2}, v1::DTYPE_INT32));
  v1::TensorMeta rows = g.Meta({3, 2}, v1::DTYPE_INT32);
  rows.mutable_storage_offset()->set_constant(2);
  g.Output(g.Node("aten::slice.Tensor", {bits, 0, 1, 4, 1}, rows));
  g.Output(g.Node("aten::view_as_complex", {x}, g.Meta({4}, v1::DTYPE_COMPLEX64)));
  const Program program = Lower(g);
  EXPECT_EQ(program.operations.size(), 1u);
  EXPECT_EQ(program.outputs[0].dtype, v1::DTYPE_INT32);
  EXPECT_EQ(program.outputs[1].dtype, v1::DTYPE_COMPLEX64);
  EXPECT_EQ(program.outputs[0].view.buffer, program.outputs[1].view.buffer);
  EXPECT_TRUE(program.outputs[0].view.offset.Is(2));
  EXPECT_TRUE(program.buffers[program.outputs[0].view.buffer].returned);
}

TEST(LowerGraphOutputsTest, AnOutputAloneIsComputedAsItsType) {
  GraphBuilder g;
  const Ref x = g.Node("aten::neg", {g.Input({4})}, g.Meta({4}));
  g.Output(g.Node("aten::view.dtype", {x, v1::DTYPE_INT32}, g.Meta({4}, v1::DTYPE_INT32)));
  const Program program = Lower(g);
  EXPECT_EQ(program.outputs[0].dtype, v1::DTYPE_UNSPECIFIED);
  EXPECT_EQ(program.buffers[program.outputs[0].view.buffer].dtype, v1::DTYPE_INT32);
}

// Seen as real ones, memory is read where it lies, by whoever reads it.
TEST(LowerGraphOutputsTest, ViewsOfComplexNumbersShareMemory) {
  GraphBuilder g;
  const Ref x = g.Input({6, 2});
  const Ref z = g.Node("aten::view_as_complex", {x}, g.Meta({6}, v1::DTYPE_COMPLEX64));
  const Ref part =
      g.Node("aten::slice.Tensor", {z, 0, 2, 4, 1}, g.Meta({2}, v1::DTYPE_COMPLEX64, {1}, 2));
  g.Output(g.Node("aten::view_as_real", {part}, g.Meta({2, 2}, v1::DTYPE_FLOAT32, {2, 1}, 4)));
  const Program program = Lower(g);
  EXPECT_TRUE(program.operations.empty());
  EXPECT_EQ(program.outputs[0].view.buffer, 0);
  EXPECT_TRUE(program.outputs[0].view.offset.Is(4));
}

// Of one memory, but autograd is told of one that it has no gradient.
TEST(LowerGraphOutputsTest, ValuesAreTensorsOfTheirOwn) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::sin", {x}, g.Meta({4}));
  const Ref apart = g.Node("aten::detach", {y}, g.Meta({4}));
  g.Output(apart).Output(y).Output(apart).Output(y).Output(x);
  const Program program = Lower(g);
  EXPECT_THAT(LibraryCalls(program), ElementsAre());
  std::vector<int> tensors, buffers;
  for (const auto& output : program.outputs) {
    tensors.push_back(output.tensor);
    buffers.push_back(output.view.buffer);
  }
  EXPECT_EQ(buffers[0], buffers[1]);
  EXPECT_NE(tensors[0], tensors[1]);
  EXPECT_EQ(tensors[0], tensors[2]);
  EXPECT_EQ(tensors[1], tensors[3]);
  EXPECT_EQ(tensors[4], 0);  // the input's number
}

TEST(LowerGraphOutputsTest, ACloneOfAnInputIsNotTheInput) {
  GraphBuilder g;
  const Ref x = g.Input({3});
  g.Output(g.Node("aten::clone", {x, nullptr}, g.Meta({3})));
  const Program program = Lower(g);
  EXPECT_EQ(program.buffers[program.outputs[0].view.buffer].kind, BufferKind::kComputed);
}

// A part of a product is copied out before the next product, and not at the end: the whole goes
// then. Copies of inputs, which stay anyway, take no memory before they must.
TEST(LowerGraphOutputsTest, CopiesThatLeaveAreMadeWhereTheyAreCaptured) {
  for (const bool of_product : {true, false}) {
    GraphBuilder g;
    const Ref x = g.Input({64, 64}), w = g.Input({64, 64});
    const Ref whole = of_product ? g.Node("aten::mm", {x, w}, g.Meta({64, 64})) : x;
    const Ref part = g.Node("aten::slice.Tensor", {whole, 1, 0, 16, 1},
                            g.Meta({64, 16}, v1::DTYPE_FLOAT32, {64, 1}));
    const Ref copy = g.Node("aten::clone", {part, nullptr}, g.Meta({64, 16}));
    const Ref rest =
        g.Node("aten::mm", {g.Node("aten::mm", {w, w}, g.Meta({64, 64})), w}, g.Meta({64, 64}));
    g.Output(rest).Output(copy);
    const Program program = Lower(g);
    size_t calls_before = 0;
    while (std::holds_alternative<compiler::ExternOp>(program.operations.at(calls_before))) {
      ++calls_before;
    }
    EXPECT_EQ(calls_before, of_product ? 1u : 2u);
  }
}

TEST(LayoutTest, DenseIsAPermutationOfContiguous) {
  using compiler::IsDense;
  using E = sym::Expr;
  EXPECT_TRUE(IsDense({E(2), E(3)}, {E(3), E(1)}));
  EXPECT_TRUE(IsDense({E(2), E(3)}, {E(1), E(2)}));
  EXPECT_TRUE(IsDense({E(2), E(1), E(3)}, {E(3), E(77), E(1)}));
  EXPECT_FALSE(IsDense({E(2), E(3)}, {E(4), E(1)}));
  EXPECT_FALSE(IsDense({E(2), E(3)}, {E(0), E(1)}));
  const E s = E::Size(0, 2, 9);
  EXPECT_TRUE(IsDense({E(4), s}, {s, E(1)}));
}

// ---- Writes to inputs

TEST(LowerGraphOutputsTest, ReadersOfTheOldValueComeFirst) {
  GraphBuilder g;
  const Ref x = g.Input({3});
  const Ref old = g.Node("aten::add.Scalar", {x, 1, 1}, g.Meta({3}));
  const Ref fresh = g.Node("aten::mul.Scalar", {x, 10}, g.Meta({3}));
  g.Node("aten::copy_", {x, fresh, false}, g.Meta({3}));
  g.Output(old).Output(g.Node("aten::neg", {x}, g.Meta({3})));
  const Program program = Lower(g);
  std::vector<HostTensor> inputs = {MakeTensor({3}, {1, 2, 3})};
  const auto outputs = Interpret(program, inputs);
  EXPECT_THAT(outputs[0].Values(), ElementsAre(2, 3, 4));
  EXPECT_THAT(outputs[1].Values(), ElementsAre(-10, -20, -30));
  EXPECT_THAT(inputs[0].Values(), ElementsAre(10, 20, 30));
  // x * 10 reads each element only where it writes it, so it needs no buffer.
  EXPECT_EQ(program.operations.size(), 3u);
}

TEST(LowerGraphOutputsTest, AWriteThatReadsOtherPlacesGoesThroughABuffer) {
  GraphBuilder g;
  const Ref x = g.Input({2, 2});
  const Ref flipped = g.Node("aten::flip", {x, Ints({0})}, g.Meta({2, 2}));
  g.Node("aten::copy_", {x, flipped, false}, g.Meta({2, 2}));
  const Program program = Lower(g);
  EXPECT_EQ(program.operations.size(), 2u);
  std::vector<HostTensor> inputs = {MakeTensor({2, 2}, {1, 2, 3, 4})};
  Interpret(program, inputs);
  EXPECT_THAT(inputs[0].Values(), ElementsAre(3, 4, 1, 2));
}

}  // namespace lower_graph_outputs_test
}  // namespace tensord::testing
