// SPDX-License-Identifier: Apache-2.0
// Library calls of lowered graphs: which operators become them, how their arguments lie and where
// their results go, and those on the CPU in a graph for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/decompose/lower_graph_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace lower_graph_library_test {

using compiler::BufferKind;
using compiler::ExternOp;
using compiler::Program;
using lower_graph_testing::ErrorOf;
using lower_graph_testing::LibraryCalls;
using lower_graph_testing::Lower;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a daemon asks for when no kernel could be made of a node.
TEST(LowerGraphLibraryTest, NodesMayHaveToBeLibraryCalls) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref a = g.Node("aten::sin", {x}, g.Meta({4}));
  const Ref b = g.Node("aten::cos", {a}, g.Meta({4}));
  g.Output(g.Node("aten::tanh", {b}, g.Meta({4})));
  auto graph = VerifiedImport(g.graph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph->nodes[1].library = true;
  const auto program = compiler::LowerGraph(*graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(LibraryCalls(*program), ElementsAre("aten::cos"));
  EXPECT_EQ(program->operations.size(), 3u);
}

TEST(LowerGraphLibraryTest, UnknownOperatorsBecomeLibraryCalls) {
  GraphBuilder g;
  const Ref x = g.Input({4, 4});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({4, 4}));
  const Ref z = g.Node("aten::some_solver", {y, List({y, nullptr}), 2.5}, g.Meta({4, 4}));
  g.Output(g.Node("aten::neg", {z}, g.Meta({4, 4})));
  const Program program = Lower(g);
  EXPECT_THAT(LibraryCalls(program), ElementsAre("aten::some_solver"));
  // neg is computed once though the call reads it twice.
  EXPECT_EQ(program.operations.size(), 3u);
}

TEST(LowerGraphLibraryTest, ProductsWriteIntoBuffersOfOurs) {
  GraphBuilder g;
  const Ref bias = g.Input({6}), x = g.Input({4, 5}), w = g.Input({6, 5});
  const Ref wt = g.Node("aten::t", {w}, g.Meta({5, 6}, v1::DTYPE_FLOAT32, {1, 5}));
  g.Output(g.Node("aten::addmm", {bias, x, wt, 1, 1}, g.Meta({4, 6})));
  const Program program = Lower(g);
  ASSERT_THAT(LibraryCalls(program), ElementsAre("aten::addmm.out"));
  ASSERT_EQ(program.operations.size(), 1u);
  const auto& call = std::get<ExternOp>(program.operations[0]);
  EXPECT_EQ(program.buffers[call.results[0]].kind, BufferKind::kComputed);
  EXPECT_TRUE(program.buffers[call.results[0]].returned);
  GraphBuilder h;
  const Ref a = h.Input({4, 5}), b = h.Input({4, 5});
  h.Output(h.Node("aten::mm", {a, b}, h.Meta({4, 5})));
  EXPECT_THAT(ErrorOf(h), HasSubstr("cannot multiply float32[4, 5] and float32[4, 5]"));
}

// What a call reads expanded is in memory as it was before, not once for each of a batch.
TEST(LowerGraphLibraryTest, ExpandedOperandsAreInMemoryOnce) {
  GraphBuilder g;
  const Ref x = g.Input({8, 3, 5}), w = g.Input({6, 5});
  const Ref scaled = g.Node("aten::neg", {w}, g.Meta({6, 5}));
  const Ref wt = g.Node("aten::t", {scaled}, g.Meta({5, 6}, v1::DTYPE_FLOAT32, {1, 5}));
  const v1::TensorMeta expanded = g.Meta({8, 5, 6}, v1::DTYPE_FLOAT32, {0, 1, 5});
  const Ref all = g.Node("aten::expand", {wt, Ints({8, 5, 6}), false}, expanded);
  g.Output(g.Node("aten::bmm", {x, all}, g.Meta({8, 3, 6})));
  const Program program = Lower(g);
  const auto& call = std::get<ExternOp>(program.operations[1]);
  const auto& view = std::get<compiler::BufferView>(call.args[1].value);
  EXPECT_EQ(view.strides, (compiler::Sizes{0, 1, 5}));
  EXPECT_EQ(program.buffers[view.buffer].sizes, (compiler::Sizes{6, 5}));
}

TEST(LowerGraphLibraryTest, LibraryCallsGetTheStridesOfEager) {
  GraphBuilder g;
  const Ref x = g.Input({4, 6});
  const v1::TensorMeta transposed = g.Meta({6, 4}, v1::DTYPE_FLOAT32, {1, 6});
  const Ref t = g.Node("aten::t", {x}, transposed);
  const Ref y = g.Node("aten::neg", {t}, transposed);
  g.Output(g.Node("aten::keeps_layout", {y}, transposed));
  const Program program = Lower(g);
  const auto& call = std::get<ExternOp>(program.operations[1]);
  const auto& view = std::get<compiler::BufferView>(call.args[0].value);
  EXPECT_TRUE(view.strides[0].Is(1) && view.strides[1].Is(6));
}

TEST(LowerGraphLibraryTest, LibraryCallsGetTheStridesOfEagerAlongOneElementToo) {
  GraphBuilder g;  // attention asks that the stride of its one query is aligned
  const Ref x = g.Input({2, 48});
  const v1::TensorMeta heads = g.Meta({2, 6, 1, 8}, v1::DTYPE_FLOAT32, {48, 8, 48, 1});
  const Ref y = g.Node("aten::neg", {x}, g.Meta({2, 48}));
  const Ref z = g.Node("aten::view", {y, Ints({2, 1, 6, 8})},
                       g.Meta({2, 1, 6, 8}, v1::DTYPE_FLOAT32, {48, 48, 8, 1}));
  const Ref t = g.Node("aten::permute", {z, Ints({0, 2, 1, 3})}, heads);
  g.Output(g.Node("aten::keeps_layout", {t}, heads));
  const Program program = Lower(g);
  const auto& call = std::get<ExternOp>(program.operations[1]);
  EXPECT_EQ(std::get<compiler::BufferView>(call.args[0].value).strides,
            (compiler::Sizes{48, 8, 48, 1}));
}

TEST(LowerGraphLibraryTest, ComplexNumbersOfTheLibraryAreSeenAsSuch) {
  GraphBuilder g;
  const Ref x = g.Input({4, 2}, v1::DTYPE_COMPLEX64);
  const Ref t = g.Node("aten::t", {x}, g.Meta({2, 4}, v1::DTYPE_COMPLEX64, {1, 2}));
  g.Output(g.Node("aten::acos", {t}, g.Meta({2, 4}, v1::DTYPE_COMPLEX64, {1, 2})));
  const Program program = Lower(g);
  EXPECT_THAT(LibraryCalls(program), ElementsAre("aten::acos"));
  // A view computes nothing: the call reads the input's memory in another order.
  const auto& call = std::get<ExternOp>(program.operations[0]);
  const auto& view = std::get<compiler::BufferView>(call.args[0].value);
  EXPECT_TRUE(view.strides[0].Is(1) && view.strides[1].Is(2));
  EXPECT_TRUE(view.is_complex && program.buffers[view.buffer].is_complex);
}

TEST(LowerGraphLibraryTest, NumbersOnTheCpuAreBroughtOver) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({4});
  v1::TensorMeta number = g.Meta({});
  number.set_device(v1::DEVICE_TYPE_CPU);
  const Ref n = g.Input(number);
  g.Output(g.Node("aten::mul.Tensor", {x, n}, g.Meta({4}))).Output(n);
  const Program program = Lower(g);
  EXPECT_THAT(LibraryCalls(program), ElementsAre("aten::_to_copy"));
  // The output is still the input itself.
  EXPECT_EQ(program.buffers[program.outputs[1].view.buffer].device, v1::DEVICE_TYPE_CPU);
}

// Tensors on the CPU in a graph for a GPU: what computes there is the library's, in memory of its
// own; nothing of ours reads or writes there.
class OnTheCpu : public ::testing::Test {
 protected:
  v1::TensorMeta OfCpu(v1::TensorMeta meta) const {
    meta.set_device(v1::DEVICE_TYPE_CPU);
    return meta;
  }
  Ref ToGpu(Ref value, const Shape& sizes) {
    return g_.Node("aten::_to_copy",
                   {value, nullptr, nullptr, v1::DEVICE_TYPE_CUDA, nullptr, false, nullptr},
                   g_.Meta(sizes));
  }

  GraphBuilder g_{v1::DEVICE_TYPE_CUDA};
};

TEST_F(OnTheCpu, ViewsAreStridesOfMemoryThatIsThere) {
  const Ref x = g_.Input({3, 4});
  const Ref table = g_.Input(OfCpu(g_.Meta({4, 3})));
  const Ref sine = g_.Node("aten::sin", {table}, OfCpu(g_.Meta({4, 3})));
  const Ref turned = g_.Node("aten::permute", {sine, Ints({1, 0})},
                             OfCpu(g_.Meta({3, 4}, v1::DTYPE_FLOAT32, {1, 3})));
  const Ref part = g_.Node("aten::slice.Tensor", {turned, 0, 1, 3, 1},
                           OfCpu(g_.Meta({2, 4}, v1::DTYPE_FLOAT32, {1, 3}, 1)));
  const Ref doubled = g_.Node("aten::add.Tensor", {part, part, 1},
                              OfCpu(g_.Meta({2, 4}, v1::DTYPE_FLOAT32, {1, 2})));
  const Ref moved = ToGpu(turned, {3, 4});
  g_.Output(g_.Node("aten::mul.Tensor", {x, moved}, g_.Meta({3, 4}))).Output(doubled);
  const Program program = Lower(g_);
  EXPECT_THAT(LibraryCalls(program),
              ElementsAre("aten::sin", "aten::add.Tensor", "aten::_to_copy"));
  const auto& add = std::get<ExternOp>(program.operations[1]);
  const auto& view = std::get<compiler::BufferView>(add.args[0].value);
  EXPECT_EQ(view.buffer, std::get<ExternOp>(program.operations[0]).results[0]);
  EXPECT_TRUE(view.offset.Is(1));
  EXPECT_EQ(program.buffers[program.outputs[1].view.buffer].device, v1::DEVICE_TYPE_CPU);
}

// What would need code there: the bytes of floats as integers.
TEST_F(OnTheCpu, ViewsThatAreNotStridesAreTheLibrarys) {
  const Ref x = g_.Input({4});
  const Ref table = g_.Input(OfCpu(g_.Meta({4})));
  const Ref sine = g_.Node("aten::sin", {table}, OfCpu(g_.Meta({4})));
  const Ref bits =
      g_.Node("aten::view.dtype", {sine, v1::DTYPE_INT32}, OfCpu(g_.Meta({4}, v1::DTYPE_INT32)));
  const Ref moved =
      ToGpu(g_.Node("aten::bitwise_not", {bits}, OfCpu(g_.Meta({4}, v1::DTYPE_INT32))), {4});
  g_.Output(g_.Node("aten::add.Tensor", {x, moved, 1}, g_.Meta({4})));
  EXPECT_THAT(LibraryCalls(Lower(g_)), ElementsAre("aten::sin", "aten::view_copy.dtype",
                                                   "aten::bitwise_not", "aten::_to_copy"));
}

// A library call wants its argument as eager has it, and a view's copy by the library is row-major.
TEST_F(OnTheCpu, OtherStridesAreTheLibrarysCopy) {
  const Ref x = g_.Input({4});
  const Ref table = g_.Constant<float>({2, 2}, v1::DTYPE_FLOAT32, {1, 2, 3, 4});
  *g_.graph().mutable_constants(0)->mutable_meta() = OfCpu(g_.Meta({2, 2}));
  g_.Output(g_.Node("aten::sin", {x}, g_.Meta({4}))).Output(table);
  const Program program = Lower(g_);
  EXPECT_THAT(LibraryCalls(program), ElementsAre("aten::empty_strided", "aten::copy_"));
  const auto& made = program.buffers[program.outputs[1].view.buffer];
  EXPECT_EQ(made.device, v1::DEVICE_TYPE_CPU);
  EXPECT_EQ(made.kind, BufferKind::kExternResult);
  EXPECT_TRUE(made.returned);
}

TEST_F(OnTheCpu, LoopsThatReadThereAreFound) {
  const Ref x = g_.Input({4});
  g_.Output(g_.Node("aten::sin", {x}, g_.Meta({4})));
  Program program = Lower(g_);
  program.buffers[0].device = v1::DEVICE_TYPE_CPU;
  EXPECT_THAT(std::string(compiler::VerifyProgram(program).message()),
              HasSubstr("is on another device than what loops read and write"));
}

}  // namespace lower_graph_library_test
}  // namespace tensord::testing
