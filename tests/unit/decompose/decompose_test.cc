// SPDX-License-Identifier: Apache-2.0
// The operator tables beyond their numbers (decompose_golden_test.cc): how many loops a lowering
// leaves, symbolic sizes, what is left to the library, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/decompose/lower_graph.h"
#include "tests/unit/decompose/decompose_testing.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/scalar_ops.h"

namespace tensord::testing {
namespace decompose_test {

using compiler::LoopOp;
using decompose_testing::CountLoops;
using decompose_testing::Iota;
using decompose_testing::LibraryCall;
using decompose_testing::Lower;
using decompose_testing::LowerAndRun;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// ---- How much is left to do

TEST(Decompose, SoftmaxIsFourLoops) {
  GraphBuilder g;
  const Ref x = g.Input({8, 16});
  g.Output(g.Node("aten::_softmax", {x, -1, false}, g.Meta({8, 16})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 4);  // max, exp, sum, quotient
}

// Of one element, which has no dimension.
TEST(Decompose, SoftmaxOfNoDimensions) {
  for (const v1::DeviceType device : {v1::DEVICE_TYPE_CPU, v1::DEVICE_TYPE_CUDA}) {
    GraphBuilder g(device);
    const Ref x = g.Node("aten::neg", {g.Input(g.Meta({}))}, g.Meta({}));
    g.Output(g.Node("aten::_softmax", {x, 0, false}, g.Meta({})));
    const auto program = Lower(g);
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<HostTensor> inputs = {MakeTensor({}, {3})};
    EXPECT_THAT(Interpret(*program, inputs)[0].Values(), ::testing::ElementsAre(1));
  }
}

TEST(Decompose, LogSoftmaxKeepsNoExponentials) {
  GraphBuilder g;
  const Ref x = g.Input({8, 16});
  g.Output(g.Node("aten::_log_softmax", {x, -1, false}, g.Meta({8, 16})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 2);  // maximum with sum, result
}

TEST(Decompose, LayerNormIsThreeLoopsAndTakesTheSumInLazily) {
  GraphBuilder g;
  const Ref x = g.Input({8, 16}), y = g.Input({8, 16}), w = g.Input({16});
  const Ref sum = g.Node("aten::add.Tensor", {x, y, 1}, g.Meta({8, 16}));
  const Ref norm = g.Node("aten::native_layer_norm", {sum, Ints({16}), w, nullptr, 1e-5},
                          {g.Meta({8, 16}), g.Meta({8, 1}), g.Meta({8, 1})});
  g.Output(norm);
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 3);  // sum, sum of squares, result
}

TEST(Decompose, BatchNormReadsItsInputTwice) {
  GraphBuilder g;
  const Ref x = g.Input({4, 3, 5, 5}), rm = g.Input({3}), rv = g.Input({3});
  const Ref norm = g.Node(
      "aten::_native_batch_norm_legit_functional", {x, nullptr, nullptr, rm, rv, true, 0.1, 1e-5},
      {g.Meta({4, 3, 5, 5}), g.Meta({3}), g.Meta({3}), g.Meta({3}), g.Meta({3})});
  g.Output(norm);
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 3);  // Welford, a number for each channel, result
  int reads = 0;
  for (const auto& operation : program->operations) {
    const auto& insts = std::get<LoopOp>(operation).block.insts;
    reads += std::any_of(insts.begin(), insts.end(), [](const compiler::Inst& inst) {
      return inst.kind == compiler::InstKind::kLoad && inst.buffer == 0;
    });
  }
  EXPECT_EQ(reads, 2);
}

TEST(Decompose, ActivationsStayInOneLoop) {
  GraphBuilder g;
  const Ref x = g.Input({8, 16});
  const Ref a = g.Node("aten::silu", {x}, g.Meta({8, 16}));
  const Ref b = g.Node("aten::hardtanh", {a, -1, 1}, g.Meta({8, 16}));
  g.Output(g.Node("aten::gelu", {b, "tanh"}, g.Meta({8, 16})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 1);
  // Each operand is loaded once per element, however often a formula names it.
  const auto& block = std::get<LoopOp>(program->operations[0]).block;
  int loads = 0, sigmoids = 0;
  for (const auto& inst : block.insts) {
    loads += inst.kind == compiler::InstKind::kLoad;
    sigmoids += inst.kind == compiler::InstKind::kCompute && inst.op == compiler::Op::k_sigmoid;
  }
  EXPECT_EQ(loads, 1);
  // One is silu's, one stands for gelu's 1 + tanh.
  EXPECT_EQ(sigmoids, 2);
}

// g (1 - y^2) of a tanh that is computed here again: 4 s (1 - s) keeps the digits of small slopes.
TEST(Decompose, SlopeOfTanhIsOfASigmoid) {
  GraphBuilder g;
  const Ref grad = g.Input({8}), x = g.Input({8});
  const Ref y = g.Node("aten::tanh", {x}, g.Meta({8}));
  g.Output(g.Node("aten::tanh_backward", {grad, y}, g.Meta({8})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto& block = std::get<LoopOp>(program->operations[0]).block;
  int sigmoids = 0;
  for (const auto& inst : block.insts) {
    sigmoids += inst.kind == compiler::InstKind::kCompute && inst.op == compiler::Op::k_sigmoid;
  }
  EXPECT_EQ(sigmoids, 1);
}

TEST(Decompose, NllLossNeedsNoScatterBackward) {
  GraphBuilder g;
  const Ref grad = g.Input(Shape{}), x = g.Input({6, 9}), t = g.Input({6}, v1::DTYPE_INT64);
  const Ref total = g.Input(Shape{});
  g.Output(
      g.Node("aten::nll_loss_backward", {grad, x, t, nullptr, 1, -100, total}, g.Meta({6, 9})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CountLoops(*program), 1);
}

// ---- Symbolic sizes: the program serves values other than the hints

TEST(Decompose, SoftmaxOfASymbolicRow) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  const Ref x = g.Input({2, s});
  g.Output(g.Node("aten::_softmax", {x, 1, false}, g.Meta({2, s})));
  const auto out = LowerAndRun(g, {MakeTensor({2, 3}, {1, 2, 3, 0, 0, 0})}, {.symbols = {{0, 3}}});
  ASSERT_EQ(out.size(), 1u);
  const double sum = std::exp(-2.0) + std::exp(-1.0) + 1;
  EXPECT_THAT(
      out[0].Values(),
      Pointwise(DoubleNear(1e-6), std::vector<double>{std::exp(-2.0) / sum, std::exp(-1.0) / sum,
                                                      1 / sum, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
}

TEST(Decompose, MeanAndVarianceDivideByTheSymbolicCount) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  const Ref x = g.Input({s, 2});
  g.Output(g.Node("aten::mean.dim", {x, Ints({0}), false, nullptr}, g.Meta({2})));
  g.Output(g.Node("aten::var.correction", {x, Ints({0}), 1, false}, g.Meta({2})));
  const auto out =
      LowerAndRun(g, {MakeTensor({3, 2}, {1, 10, 2, 20, 6, 60})}, {.symbols = {{0, 3}}});
  ASSERT_EQ(out.size(), 2u);
  EXPECT_THAT(out[0].Values(), ElementsAre(3, 30));
  EXPECT_THAT(out[1].Values(), ElementsAre(7, 700));
}

TEST(Decompose, GroupNormOfASymbolicBatch) {
  GraphBuilder g;
  const Dim s = g.Symbol(4);
  const Ref x = g.Input({s, 4, 2});
  const Ref norm = g.Node("aten::native_group_norm", {x, nullptr, nullptr, s, 4, 2, 2, 0.0},
                          {g.Meta({s, 4, 2}), g.Meta({s, 2}), g.Meta({s, 2})});
  g.Output(norm).Output(norm.result(1));
  const auto out = LowerAndRun(g, {MakeTensor({2, 4, 2}, Iota(16))}, {.symbols = {{0, 2}}});
  ASSERT_EQ(out.size(), 2u);
  const std::vector<double> values = out[0].Values();
  for (int group = 0; group < 4; ++group) {
    double sum = 0, squares = 0;
    for (int k = 0; k < 4; ++k)
      sum += values[group * 4 + k], squares += std::pow(values[group * 4 + k], 2);
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_NEAR(squares, 4, 1e-4);
  }
}

TEST(Decompose, EmbeddingOfASymbolicLength) {
  GraphBuilder g;
  const Dim s = g.Symbol(8);
  const Ref w = g.Input({4, 2}), i = g.Input({s}, v1::DTYPE_INT64);
  g.Output(g.Node("aten::embedding", {w, i, -1, false, false}, g.Meta({s, 2})));
  const auto out =
      LowerAndRun(g, {MakeTensor({4, 2}, Iota(8)), MakeTensor({3}, {3, 0, 3}, v1::DTYPE_INT64)},
                  {.symbols = {{0, 3}}});
  ASSERT_EQ(out.size(), 1u);
  const std::vector<double> w0 = Iota(8);
  EXPECT_THAT(out[0].Values(), ElementsAre(w0[6], w0[7], w0[0], w0[1], w0[6], w0[7]));
}

// ---- Random numbers

TEST(Decompose, PhiloxCountsRowMajorWhateverTheLayout) {
  GraphBuilder g;
  const Ref seed = g.Input(Shape{}, v1::DTYPE_INT64);
  const Ref u =
      g.Node("tensord::philox_uniform",
             {seed, Ints({2, 3}), v1::DTYPE_FLOAT32, v1::DEVICE_TYPE_CPU, 5}, g.Meta({2, 3}));
  g.Output(g.Node("aten::permute", {u, Ints({1, 0})}, g.Meta({3, 2}, v1::DTYPE_FLOAT32, {1, 3})));
  g.Output(u);
  const auto out = LowerAndRun(g, {MakeTensor({}, {1234567}, v1::DTYPE_INT64)});
  ASSERT_EQ(out.size(), 2u);
  std::vector<double> expected;
  for (int64_t k = 0; k < 6; ++k) {
    expected.push_back(EvaluateOp(compiler::Op::k_philox_uniform, v1::DTYPE_INT64,
                                  {{.integer = 1234567}, {.integer = 5}, {.integer = k}})
                           .real);
  }
  EXPECT_EQ(out[1].Values(), expected);
  const std::vector<double> t = out[0].Values();
  EXPECT_EQ(t, (std::vector<double>{expected[0], expected[3], expected[1], expected[4], expected[2],
                                    expected[5]}));
}

// ---- Writing in place

TEST(Decompose, IndexPutInPlaceWritesTheInput) {
  GraphBuilder g;
  const Ref x = g.Input({4}), i = g.Input({2}, v1::DTYPE_INT64), v = g.Input({2});
  const Ref put = g.Node("aten::index_put_", {x, List({i}), v, true}, g.Meta({4}));
  g.Output(g.Node("aten::mul.Tensor", {put, put}, g.Meta({4})));
  const auto program = Lower(g);
  ASSERT_TRUE(program.ok()) << program.status();
  std::vector<HostTensor> inputs{MakeTensor({4}, {1, 2, 3, 4}),
                                 MakeTensor({2}, {3, 3}, v1::DTYPE_INT64),
                                 MakeTensor({2}, {10, 20})};
  const auto out = Interpret(*program, inputs);
  EXPECT_THAT(inputs[0].Values(), ElementsAre(1, 2, 3, 34));
  EXPECT_THAT(out[0].Values(), ElementsAre(1, 4, 9, 34 * 34));
}

// ---- Left to the library

TEST(Decompose, DataDependentCasesAreLibraryCalls) {
  {
    GraphBuilder g;
    const Ref x = g.Input({4});
    g.Output(
        g.Node("aten::native_dropout", {x, 0.5, true}, {g.Meta({4}), g.Meta({4}, v1::DTYPE_BOOL)}));
    const auto program = Lower(g);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(LibraryCall(*program), "aten::native_dropout");
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4}), mask = g.Input({4}, v1::DTYPE_BOOL), v = g.Input(Shape{});
    g.Output(g.Node("aten::index_put", {x, List({mask}), v, false}, g.Meta({4})));
    const auto program = Lower(g);
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(LibraryCall(*program), "aten::index_put");
    EXPECT_EQ(CountLoops(*program), 0);
  }
}

// Eager raises at extremes of nothing.
TEST(Decompose, ExtremesOfWhatMayBeEmptyAreTheLibrarys) {
  const auto call_of = [](const std::string& op, const auto& size_of) {
    GraphBuilder g;
    const Ref x = g.Input({size_of(g), 5});
    const bool along = op.ends_with(".dim");
    std::vector<Arg> args{x};
    std::vector<v1::TensorMeta> results{g.Meta({})};
    if (op == "aten::amin") args.insert(args.end(), {Ints({}), false});
    if (op == "aten::aminmax") {
      args.insert(args.end(), {nullptr, false});
      results.push_back(g.Meta({}));
    }
    if (along) {
      args.insert(args.end(), {0, false});
      results = {g.Meta({5}), g.Meta({5}, v1::DTYPE_INT64)};
    }
    if (op == "aten::argmax") {
      args.insert(args.end(), {nullptr, false});
      results = {g.Meta({}, v1::DTYPE_INT64)};
    }
    g.Output(g.Node(op, args, results));
    const auto program = Lower(g);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? LibraryCall(*program) : "";
  };
  for (const std::string op :
       {"aten::max", "aten::min", "aten::amin", "aten::aminmax", "aten::max.dim", "aten::argmax"}) {
    const std::string name = op.substr(0, op.find('.'));
    EXPECT_EQ(call_of(op, [](GraphBuilder&) { return Dim(0); }), name);
    EXPECT_EQ(call_of(op, [](GraphBuilder& g) { return g.DataSymbol(8); }), name);
    EXPECT_EQ(call_of(op, [](GraphBuilder& g) { return g.DataSymbol(8, /*min=*/1); }), "");
    EXPECT_EQ(call_of(op, [](GraphBuilder& g) { return g.Symbol(8); }), "");
  }
}

// Where eager has no kernel its own error says so.
TEST(Decompose, TypesThatEagerRefusesAreTheLibrarys) {
  const auto call_of = [](const std::string& op, int operands, v1::DeviceType device,
                          v1::DType dtype) {
    GraphBuilder g(device);
    std::vector<Arg> args;
    for (int i = 0; i < operands; ++i) args.push_back(g.Input({4}, dtype));
    g.Output(g.Node(op, args, g.Meta({4}, dtype)));
    const auto program = Lower(g);
    EXPECT_TRUE(program.ok()) << program.status();
    return program.ok() ? LibraryCall(*program) : "";
  };
  constexpr auto kCpu = v1::DEVICE_TYPE_CPU, kCuda = v1::DEVICE_TYPE_CUDA;
  for (const v1::DType narrow : {v1::DTYPE_FLOAT16, v1::DTYPE_BFLOAT16}) {
    EXPECT_EQ(call_of("aten::special_erfcx", 1, kCpu, narrow), "aten::special_erfcx");
    for (const auto& [op, operands] :
         {std::pair("aten::igamma", 2), {"aten::igammac", 2}, {"aten::angle", 1}}) {
      EXPECT_EQ(call_of(op, operands, kCuda, narrow), op);
      EXPECT_EQ(call_of(op, operands, kCuda, v1::DTYPE_FLOAT32), "");
      EXPECT_EQ(call_of(op, operands, kCpu, narrow), "");
    }
  }
}

// ---- Refused

std::string Refusal(const std::string& op, const std::vector<Arg>& args, GraphBuilder& g,
                    const std::vector<v1::TensorMeta>& outputs) {
  g.Output(g.Node(op, args, outputs));
  const auto program = Lower(g);
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << program.status();
  return std::string(program.status().message());
}

TEST(Decompose, RefusesWithTheNodeAndTheReason) {
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 5});
    EXPECT_THAT(Refusal("aten::_softmax", {x, 2, false}, g, {g.Meta({4, 5})}),
                HasSubstr("node 'n0' (aten::_softmax): dimension 2 is out of range for rank 2"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 5}), y = g.Input({4, 4});
    EXPECT_THAT(Refusal("aten::silu_backward", {x, y}, g, {g.Meta({4, 5})}),
                HasSubstr("sizes do not broadcast together: [4, 5] and [4, 4]"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 5});
    EXPECT_THAT(Refusal("aten::gelu", {x, "fast"}, g, {g.Meta({4, 5})}),
                HasSubstr("approximate must be 'none' or 'tanh', not 'fast'"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 5}), w = g.Input({4});
    EXPECT_THAT(Refusal("aten::native_layer_norm", {x, Ints({5}), w, nullptr, 1e-5}, g,
                        {g.Meta({4, 5}), g.Meta({4, 1}), g.Meta({4, 1})}),
                HasSubstr("weight has sizes [4] where [5] is needed"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 5}), t = g.Input({3}, v1::DTYPE_INT64);
    EXPECT_THAT(Refusal("aten::nll_loss_forward", {x, t, nullptr, 1, -100}, g,
                        {g.Meta(Shape{}), g.Meta(Shape{})}),
                HasSubstr("the target has sizes [3] where [4] is needed"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 6}), i = g.Input({5, 2}, v1::DTYPE_INT64);
    EXPECT_THAT(Refusal("aten::gather", {x, 1, i, false}, g, {g.Meta({5, 2})}),
                HasSubstr("the index is larger than self"));
  }
  {
    GraphBuilder g;
    const Ref x = g.Input({4, 6}, v1::DTYPE_INT64);
    EXPECT_THAT(Refusal("aten::mean", {x, nullptr}, g, {g.Meta(Shape{})}),
                HasSubstr("needs a floating point dtype"));
  }
}

}  // namespace decompose_test
}  // namespace tensord::testing
