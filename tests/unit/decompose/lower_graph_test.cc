// SPDX-License-Identifier: Apache-2.0
#include "compiler/decompose/lower_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/decompose/lowering.h"
#include "compiler/graph/layout.h"
#include "compiler/schedule/access.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace lower_graph_test {

using compiler::BufferKind;
using compiler::ExternOp;
using compiler::Program;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Program> TryLower(GraphBuilder& g) {
  TENSORD_ASSIGN_OR_RETURN(const compiler::Graph graph, VerifiedImport(g.graph()));
  return compiler::LowerGraph(graph);
}

Program Lower(GraphBuilder& g) {
  auto program = TryLower(g);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  EXPECT_TRUE(compiler::VerifyProgram(*program).ok()) << compiler::VerifyProgram(*program);
  return *std::move(program);
}

std::string ErrorOf(GraphBuilder& g) {
  const auto program = TryLower(g);
  return program.ok() ? "accepted" : std::string(program.status().message());
}

// The values of output 0.
std::vector<double> ValuesOf(GraphBuilder& g, std::vector<HostTensor> inputs) {
  const Program program = Lower(g);
  return Interpret(program, inputs)[0].Values();
}

std::vector<std::string> LibraryCalls(const Program& program) {
  std::vector<std::string> calls;
  for (const auto& operation : program.operations) {
    if (const auto* call = std::get_if<ExternOp>(&operation)) {
      calls.push_back(call->op + (call->overload.empty() ? "" : "." + call->overload));
    }
  }
  return calls;
}

// What a daemon asks for when no kernel could be made of a node.
TEST(LowerGraphTest, NodesMayHaveToBeLibraryCalls) {
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

TEST(LowerGraphTest, JoinsInEagersLayout) {
  GraphBuilder g;
  const Ref x = g.Input({2, 3, 4, 4}, v1::DTYPE_FLOAT32, {48, 1, 12, 3});
  g.Output(g.Node("aten::cat", {List({x, x}), 1},
                  g.Meta({2, 6, 4, 4}, v1::DTYPE_FLOAT32, {96, 1, 24, 6})));
  // Each part is copied into its place, and that is all.
  EXPECT_EQ(Lower(g).operations.size(), 2u);
}

// ---- Symbolic sizes

// As many as the step's value in each call says, not as at capture.
TEST(LowerGraphTest, SlicesTakeSymbolicSteps) {
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
TEST(LowerGraphTest, SlicesAtTheHintOfASizeServeLargerOnes) {
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
TEST(LowerGraphTest, ResultsOfASizeThatMayBeNoneStillShareMemory) {
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
TEST(LowerGraphTest, ResultsInShapesThatGuardsHoldShareMemory) {
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
TEST(LowerGraphTest, CodeIsNotMadeForOneValueOfAnArgument) {
  GraphBuilder g;
  const Dim n = g.Symbol(/*hint=*/3);
  g.SizeInput(n);
  const Ref x = g.Input({8});
  g.Output(
      g.Node("aten::unfold", {x, 0, n, 1}, g.Meta({n * -1 + 9, n}, v1::DTYPE_FLOAT32, {1, 1})));
  EXPECT_THAT(LibraryCalls(Lower(g)), ElementsAre("aten::unfold_copy"));
}

TEST(LowerGraphTest, SizesThatDataDecidesFitEachOther) {
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

TEST(LowerGraphTest, SlicesWhoseEndDataDecides) {
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

// ---- Types that eager refuses

// What is said of `op` of one or two operands of these types; "accepted" where it takes them.
std::string ErrorOfTypes(const char* op, std::vector<v1::DType> types, std::vector<Arg> more,
                         v1::DType result) {
  GraphBuilder g;
  std::vector<Arg> args;
  for (const v1::DType type : types) args.push_back(g.Input({4, 4}, type));
  args.insert(args.end(), more.begin(), more.end());
  g.Output(g.Node(op, args, g.Meta({4, 4}, result)));
  return ErrorOf(g);
}

TEST(LowerGraphTest, TypesThatEagerRefusesAreRefused) {
  constexpr v1::DType kFloat = v1::DTYPE_FLOAT32, kLong = v1::DTYPE_INT64, kTruth = v1::DTYPE_BOOL;
  const auto refused = HasSubstr("it does not take operands of these types");
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_and.Tensor", {kFloat, kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_or.Tensor", {kLong, kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::bitwise_not", {kFloat}, {}, kFloat), refused);
  EXPECT_THAT(ErrorOfTypes("aten::gelu", {kLong}, {"none"}, kLong), refused);
  EXPECT_THAT(ErrorOfTypes("aten::relu", {kTruth}, {}, kTruth), refused);
  EXPECT_THAT(ErrorOfTypes("aten::mm", {kLong, kFloat}, {}, kFloat),
              HasSubstr("the operands are int64 and float32"));
  EXPECT_EQ(ErrorOfTypes("aten::bitwise_and.Tensor", {kLong, kTruth}, {}, kLong), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::bitwise_not", {kTruth}, {}, kTruth), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::gelu", {kFloat}, {"none"}, kFloat), "accepted");
  EXPECT_EQ(ErrorOfTypes("aten::relu", {kLong}, {}, kLong), "accepted");
}

// ---- Errors

TEST(LowerGraphTest, ChecksArgumentsAgainstTheSignature) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("aten::add.Tensor", {x, x}, g.Meta({4})));
  EXPECT_EQ(ErrorOf(g), "node 'n0' (aten::add.Tensor): takes 3 arguments, but has 2");
  GraphBuilder h;
  const Ref y = h.Input({4});
  h.Output(h.Node("aten::add.Tensor", {y, "text", 1}, h.Meta({4})));
  EXPECT_EQ(
      ErrorOf(h),
      "node 'n0' (aten::add.Tensor): argument 'other' must be a tensor or a number, but is a text");
  GraphBuilder i;
  const Ref z = i.Input({4});
  i.Output(i.Node("aten::cat", {List({z, nullptr}), 0}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("argument 'tensors' must be a list, each item a tensor"));
}

TEST(LowerGraphTest, ShapesMustFollow) {
  GraphBuilder g;
  const Ref x = g.Input({4, 1}), y = g.Input({8});
  g.Output(g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({4, 7})));
  EXPECT_EQ(ErrorOf(g),
            "node 'n0' (aten::add.Tensor): result 0 must be float32[4, 8], but is declared as "
            "float32[4, 7]");
  GraphBuilder h;
  const Ref a = h.Input({4}), b = h.Input({3});
  h.Output(h.Node("aten::add.Tensor", {a, b, 1}, h.Meta({4})));
  EXPECT_THAT(ErrorOf(h), HasSubstr("node 'n0' (aten::add.Tensor): sizes do not broadcast"));
  GraphBuilder i;
  const Ref c = i.Input({4}, v1::DTYPE_INT64);
  i.Output(i.Node("aten::neg", {c}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("must be int64[4], but is declared as float32[4]"));
  GraphBuilder j;
  const Ref d = j.Input({4});
  j.Output(j.Node("aten::neg", {d}, {j.Meta({4}), j.Meta({4})}));
  EXPECT_THAT(ErrorOf(j), HasSubstr("gives 1 results, but 2 are declared"));
  GraphBuilder k;
  const Ref e = k.Input({4});
  k.Output(k.Node("aten::add.Tensor", {e, e, 1}, k.Meta({4}, v1::DTYPE_COMPLEX64)));
  EXPECT_THAT(ErrorOf(k), HasSubstr("must be float32[4], but is declared as complex64[4]"));
}

TEST(LowerGraphTest, NothingRunsForEmptyTensors) {
  GraphBuilder g;
  const Ref x = g.Input(Shape{0, 3}), y = g.Input(Shape{5, 3});
  const Ref used_by_nothing = g.Node("aten::exp", {y}, g.Meta({5, 3}));
  const Ref part = g.Node("aten::slice.Tensor", {used_by_nothing, Arg(0), Arg(0), Arg(0), Arg(1)},
                          g.Meta({0, 3}));
  g.Output(g.Node("aten::mul.Tensor", {x, part}, g.Meta({0, 3})));
  EXPECT_TRUE(Lower(g).operations.empty());
  GraphBuilder h;  // a sum of nothing is zero
  h.Output(h.Node("aten::sum.dim_IntList", {h.Input(Shape{0, 3}), Ints({0}), false, nullptr},
                  h.Meta({3})));
  EXPECT_FALSE(Lower(h).operations.empty());
}

TEST(LowerGraphTest, RefusesUnknownOperatorsOfOursAndWrites) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  g.Output(g.Node("tensord::nothing", {x}, g.Meta({4})));
  EXPECT_THAT(ErrorOf(g), HasSubstr("node 'n0' (tensord::nothing): unknown operator"));
  GraphBuilder h;
  const Ref y = h.Input({4});
  h.Output(h.Node("aten::frobnicate_", {y}, h.Meta({4})));
  EXPECT_THAT(ErrorOf(h), HasSubstr("writes to its arguments"));
  GraphBuilder i;
  const Ref z = i.Input({4});
  const Ref sum = i.Node("aten::neg", {z}, i.Meta({4}));
  i.Output(i.Node("aten::copy_", {sum, z, false}, i.Meta({4})));
  EXPECT_THAT(ErrorOf(i), HasSubstr("only inputs may be written"));
}

// ---- Library calls

TEST(LowerGraphTest, UnknownOperatorsBecomeLibraryCalls) {
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

TEST(LowerGraphTest, ProductsWriteIntoBuffersOfOurs) {
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

TEST(LowerGraphTest, LibraryCallsGetTheStridesOfEager) {
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

TEST(LowerGraphTest, LibraryCallsGetTheStridesOfEagerAlongOneElementToo) {
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

TEST(LowerGraphTest, SizesThatAGuardHoldsEqualFitEachOther) {
  GraphBuilder g;
  const Dim s = g.Symbol(/*hint=*/8), r = g.Symbol(/*hint=*/5);
  g.Input({s, r});
  const Ref grad = g.Input({s * r, 7}), output = g.Input({40, 7});
  g.Output(g.Node("aten::_softmax_backward_data", {grad, output, 1, v1::DTYPE_FLOAT32},
                  g.Meta({s * r, 7})));
  EXPECT_THAT(LibraryCalls(Lower(g)), ElementsAre());
}

TEST(LowerGraphTest, ComplexNumbersOfTheLibraryAreSeenAsSuch) {
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

// Loops know no complex numbers: both parts of a product are stored by one, into neighbours.
TEST(LowerGraphTest, ComplexProductsAreLoopsOverParts) {
  GraphBuilder g;
  const v1::TensorMeta row = g.Meta({4}, v1::DTYPE_COMPLEX64);
  const Ref x = g.Input(row), y = g.Input(row);
  g.Output(g.Node("aten::mul.Tensor", {x, y}, row));
  const Program program = Lower(g);
  ASSERT_EQ(program.operations.size(), 1u);
  const auto& loop = std::get<compiler::LoopOp>(program.operations[0]);
  ASSERT_EQ(loop.stores.size(), 2u);
  EXPECT_EQ(loop.stores[1].index, loop.stores[0].index + 1);
  for (const compiler::BufferInfo& buffer : program.buffers) {
    EXPECT_EQ(buffer.dtype, v1::DTYPE_FLOAT32);
    EXPECT_EQ(buffer.sizes.size(), 2u);
    EXPECT_TRUE(buffer.is_complex);
  }
}

// Seen as real ones, memory is read where it lies, by whoever reads it.
TEST(LowerGraphTest, ViewsOfComplexNumbersShareMemory) {
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

TEST(LowerGraphTest, NumbersOnTheCpuAreBroughtOver) {
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

// Of one memory, but autograd is told of one that it has no gradient.
TEST(LowerGraphTest, ValuesAreTensorsOfTheirOwn) {
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

// ---- Realization, dead code

TEST(LowerGraphTest, CheapChainsStayLazy) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::mul.Tensor", {x, x}, g.Meta({4}));
  const Ref z = g.Node("aten::add.Tensor", {y, y, 1}, g.Meta({4}));
  g.Node("aten::exp", {z}, g.Meta({4}));  // unused
  g.Output(g.Node("aten::neg", {z}, g.Meta({4})));
  EXPECT_EQ(Lower(g).operations.size(), 1u);
}

TEST(LowerGraphTest, ExpensiveValuesReadTwiceAreRealized) {
  GraphBuilder g;
  const Ref x = g.Input({4});
  const Ref y = g.Node("aten::exp", {x}, g.Meta({4}));
  g.Output(g.Node("aten::neg", {y}, g.Meta({4})));
  g.Output(g.Node("aten::abs", {y}, g.Meta({4})));
  EXPECT_EQ(Lower(g).operations.size(), 3u);
}

// What a softmax of long rows reads is computed again on a GPU, where no block keeps such a row: in
// float32 it would be twice as large as the product that it is made of.
TEST(LowerGraphTest, BoundedLogitsOfLongRowsAreNotStored) {
  const auto computed_rows = [](v1::DeviceType device, int columns) {
    GraphBuilder g(device);
    const Shape sizes{8, columns};
    const v1::TensorMeta meta = g.Meta(sizes), narrow = g.Meta(sizes, v1::DTYPE_BFLOAT16);
    const Ref bounded = g.Node("aten::tanh", {g.Input(narrow)}, narrow);
    const Ref logs = g.Node("aten::_log_softmax", {bounded, 1, true}, meta);
    g.Output(g.Node("aten::select.int", {logs, 1, 3}, g.Meta({8}, v1::DTYPE_FLOAT32, {columns})));
    const Program program = Lower(g);
    return std::ranges::count_if(program.buffers, [&](const compiler::BufferInfo& buffer) {
      return buffer.kind == BufferKind::kComputed && sym::Product(buffer.sizes).Is(8 * columns);
    });
  };
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CUDA, 32000), 0);
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CUDA, 1000), 1);
  EXPECT_EQ(computed_rows(v1::DEVICE_TYPE_CPU, 32000), 1);
}

TEST(LowerGraphTest, LongChainsAreCut) {
  GraphBuilder g;
  Ref x = g.Input({4});
  for (int i = 0; i < 40; ++i) x = g.Node("aten::exp", {x}, g.Meta({4}));
  g.Output(x);
  const size_t operations = Lower(g).operations.size();
  EXPECT_GE(operations, 2u);
  EXPECT_LE(operations, 6u);
}

TEST(LowerGraphTest, EndlessViewsAreCut) {
  GraphBuilder g;
  const v1::TensorMeta meta = g.Meta({2, 3});
  Ref x = g.Node("aten::neg", {g.Input({2, 3})}, meta);
  for (int i = 0; i < 100'000; ++i) x = g.Node("aten::flip", {x, Ints({0, 1})}, meta);
  g.Output(x);
  const std::vector<double> result = ValuesOf(g, {MakeTensor({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(result, ElementsAre(-1, -2, -3, -4, -5, -6));
}

// ---- Collectives

// The buffers that the wait for a collective ends the reading of.
std::vector<compiler::BufferId> KeptFor(const char* collective) {
  GraphBuilder g;
  const Ref x = g.Node("aten::neg", {g.Input({4})}, g.Meta({4}));
  const Ref begun = g.Node(collective, {x, "sum", "0"}, g.Meta({4}));
  const Ref beside = g.Node("aten::exp", {x}, g.Meta({4}));
  const Ref waited = g.Node("_c10d_functional::wait_tensor", {begun}, g.Meta({4}));
  g.Output(g.Node("aten::add.Tensor", {waited, beside, 1}, g.Meta({4})));
  const Program program = Lower(g);
  for (const auto& operation : program.operations) {
    const auto* call = std::get_if<ExternOp>(&operation);
    if (call == nullptr || call->op != "_c10d_functional::wait_tensor") continue;
    const auto reads = compiler::AccessesOf(operation).reads;
    for (const auto id : call->ends_reading) EXPECT_EQ(reads.count(id), 1u);
    return call->ends_reading;
  }
  ADD_FAILURE() << "nothing waits";
  return {};
}

TEST(LowerGraphTest, WhatACollectiveReadsIsThereUntilItsWait) {
  EXPECT_EQ(KeptFor("_c10d_functional::reduce_scatter_tensor").size(), 1u);
  EXPECT_EQ(KeptFor("_c10d_functional::all_reduce").size(), 0u);  // it has copied it
}

// ---- Rounding

// How often narrow floats are rounded in all loops of x * 3 + x.sum().
int RoundingsWith(v1::DType dtype, compiler::LoweringOptions options) {
  GraphBuilder g;
  const Ref x = g.Input({8}, dtype);
  const Ref product = g.Node("aten::mul.Scalar", {x, 3.0}, g.Meta({8}, dtype));
  const Ref total = g.Node("aten::sum", {product, nullptr}, g.Meta({}, dtype));
  g.Output(g.Node("aten::add.Tensor", {product, total, 1}, g.Meta({8}, dtype)));
  const auto graph = VerifiedImport(g.graph());
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto program = compiler::LowerGraph(*graph, options);
  EXPECT_TRUE(program.ok()) << program.status();
  int roundings = 0;
  for (const auto& operation : program->operations) {
    for (const auto& inst : std::get<compiler::LoopOp>(operation).block.insts) {
      roundings += inst.kind == compiler::InstKind::kRound ? 1 : 0;
    }
  }
  return roundings;
}

TEST(LowerGraphTest, ResultsAreRoundedWhereTheyAreStoredOrBehindEachNode) {
  EXPECT_EQ(RoundingsWith(v1::DTYPE_BFLOAT16, {}), 0);
  // The product where it is summed up and where it is added to; the sum; what is stored.
  EXPECT_EQ(RoundingsWith(v1::DTYPE_BFLOAT16, {.eager_rounding = true}), 4);
  EXPECT_EQ(RoundingsWith(v1::DTYPE_FLOAT32, {.eager_rounding = true}), 0);
}

// ---- Outputs

TEST(LowerGraphTest, OutputsHaveTheDeclaredStrides) {
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

// Outputs that are one memory in eager are one buffer, whatever types they show it as.
TEST(LowerGraphTest, OutputsShareMemoryAsOtherTypes) {
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

TEST(LowerGraphTest, AnOutputAloneIsComputedAsItsType) {
  GraphBuilder g;
  const Ref x = g.Node("aten::neg", {g.Input({4})}, g.Meta({4}));
  g.Output(g.Node("aten::view.dtype", {x, v1::DTYPE_INT32}, g.Meta({4}, v1::DTYPE_INT32)));
  const Program program = Lower(g);
  EXPECT_EQ(program.outputs[0].dtype, v1::DTYPE_UNSPECIFIED);
  EXPECT_EQ(program.buffers[program.outputs[0].view.buffer].dtype, v1::DTYPE_INT32);
}

TEST(LowerGraphTest, ACloneOfAnInputIsNotTheInput) {
  GraphBuilder g;
  const Ref x = g.Input({3});
  g.Output(g.Node("aten::clone", {x, nullptr}, g.Meta({3})));
  const Program program = Lower(g);
  EXPECT_EQ(program.buffers[program.outputs[0].view.buffer].kind, BufferKind::kComputed);
}

// ---- Writes to inputs

TEST(LowerGraphTest, ReadersOfTheOldValueComeFirst) {
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

TEST(LowerGraphTest, AWriteThatReadsOtherPlacesGoesThroughABuffer) {
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

// ---- Some operators whose shapes are symbolic

TEST(LowerGraphTest, SymbolicShapes) {
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

TEST(LowerGraphTest, AsStridedStaysInside) {
  GraphBuilder g;
  const Ref x = g.Input({6});
  g.Output(g.Node("aten::as_strided", {x, Ints({2, 2}), Ints({3, 1}), 1},
                  g.Meta({2, 2}, v1::DTYPE_FLOAT32, {3, 1}, 1)));
  EXPECT_THAT(ValuesOf(g, {MakeTensor({6}, {0, 1, 2, 3, 4, 5})}), ElementsAre(1, 2, 4, 5));
  GraphBuilder h;
  const Ref y = h.Input({6});
  h.Output(h.Node("aten::as_strided", {y, Ints({2, 2}), Ints({3, 1}), 2},
                  h.Meta({2, 2}, v1::DTYPE_FLOAT32, {3, 1}, 2)));
  // An input may be a part of what has that.
  EXPECT_THAT(LibraryCalls(Lower(h)), ElementsAre("aten::as_strided_copy"));
}

TEST(LowerGraphTest, ForeachIsAListOfPointwise) {
  GraphBuilder g;
  const Ref x = g.Input({2}), y = g.Input({3});
  const Ref sums =
      g.Node("aten::_foreach_add.Scalar", {List({x, y}), 1.5}, {g.Meta({2}), g.Meta({3})});
  g.Output(sums.result(1)).Output(sums);
  EXPECT_THAT(ValuesOf(g, {MakeTensor({2}, {1, 2}), MakeTensor({3}, {1, 2, 3})}),
              ElementsAre(2.5, 3.5, 4.5));
}

TEST(LowerGraphTest, LoweringNamesAreSortedAndUnique) {
  const std::vector<std::string> names = compiler::LoweringNames();
  EXPECT_GT(names.size(), 300u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, ::testing::Contains("aten::add.Tensor"));
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

}  // namespace lower_graph_test
}  // namespace tensord::testing
