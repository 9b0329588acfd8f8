// SPDX-License-Identifier: Apache-2.0
// What steps must move and compute, by hand.
#include "compiler/plan/step_work.h"

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "tests/unit/testing/attention_graphs.h"

namespace tensord::testing {
namespace step_work_test {

constexpr uint64_t kFloat = 4, kInteger = 8;

struct Work {
  uint64_t read, written, flops;
  friend bool operator==(const Work&, const Work&) = default;
};

// Of each step; sizes are constants.
std::vector<Work> WorkOf(const GraphBuilder& builder, uint32_t sm = 0) {
  GraphBuilder copy = builder;
  v1::CompileJob job;
  *job.mutable_graph() = copy.graph();
  if (sm > 0) {
    job.mutable_target()->mutable_cuda()->set_sm(sm);
  } else {
    job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  }
  const auto result = compiler::Compile(job);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<Work> all;
  for (const v1::FusionStep& step : result->fusion().steps()) {
    const auto value = [](const v1::SymExpr& e) { return static_cast<uint64_t>(e.constant()); };
    all.push_back({value(step.work().bytes_read()), value(step.work().bytes_written()),
                   value(step.work().flops())});
    EXPECT_EQ(step.plan_steps_size() > 0, true);
    for (const uint32_t number : step.plan_steps()) {
      const v1::Step& planned = result->artifact().steps(static_cast<int>(number));
      EXPECT_EQ(planned.has_call(), step.has_call());
      EXPECT_EQ(planned.has_launch(), step.has_kernel());
    }
  }
  return all;
}

TEST(StepWork, AKernelReadsAndWritesEachElementOnce) {
  GraphBuilder g;
  const Ref x = g.Input({64, 512}), bias = g.Input({512});
  const Ref sum = g.Node("aten::add.Tensor", {x, bias, 1}, g.Meta({64, 512}));
  g.Output(g.Node("aten::_softmax", {sum, -1, false}, g.Meta({64, 512})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_EQ(work.size(), 1u);
  // x and the bias, though a row is looked at several times; no sum.
  EXPECT_EQ(work[0], (Work{(64 * 512 + 512) * kFloat, 64 * 512 * kFloat, 0}));
}

TEST(StepWork, OfATableOnlyWhatIsLookedUp) {
  GraphBuilder g;
  const Ref table = g.Input({30000, 64}), ids = g.Input({16}, v1::DTYPE_INT64);
  const Ref rows = g.Node("aten::embedding", {table, ids, -1, false, false}, g.Meta({16, 64}));
  g.Output(g.Node("aten::tanh", {rows}, g.Meta({16, 64})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0], (Work{16 * 64 * kFloat + 16 * kInteger, 16 * 64 * kFloat, 0}));
}

TEST(StepWork, OfASliceOnlyTheSlice) {
  GraphBuilder g;
  const Ref x = g.Input({100, 32});
  const Ref part = g.Node("aten::slice.Tensor", {x, 0, 10, 30, 1},
                          g.Meta({20, 32}, v1::DTYPE_FLOAT32, {32, 1}, 320));
  g.Output(g.Node("aten::tanh", {part}, g.Meta({20, 32})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0], (Work{20 * 32 * kFloat, 20 * 32 * kFloat, 0}));
}

// Element by element for one result, and column by column for another.
TEST(StepWork, ASliceThatIsReadInSeveralOrdersCountsOnce) {
  GraphBuilder g;
  const Ref x = g.Input({100, 32});
  const Ref part = g.Node("aten::slice.Tensor", {x, 0, 10, 30, 1},
                          g.Meta({20, 32}, v1::DTYPE_FLOAT32, {32, 1}, 320));
  g.Output(g.Node("aten::tanh", {part}, g.Meta({20, 32})));
  g.Output(g.Node("aten::sum.dim_IntList", {part, Ints({0}), true, nullptr}, g.Meta({1, 32})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0], (Work{20 * 32 * kFloat, (20 * 32 + 32) * kFloat, 0}));
}

TEST(StepWork, ProductsSayWhatTheyCompute) {
  GraphBuilder g;
  const Ref x = g.Input({64, 32}), w = g.Input({32, 16}), bias = g.Input({16});
  const Ref product = g.Node("aten::addmm", {bias, x, w, 1, 1}, g.Meta({64, 16}));
  g.Output(g.Node("aten::tanh", {product}, g.Meta({64, 16})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_GE(work.size(), 2u);
  EXPECT_EQ(work[0].flops, 2u * 64 * 32 * 16);
  EXPECT_GE(work[0].read, (64 * 32 + 32 * 16) * kFloat);
  EXPECT_EQ(work[0].written, 64 * 16 * kFloat);
  EXPECT_EQ(work.back().flops, 0u);
}

// Of all steps: a layout may be changed before a convolution.
uint64_t FlopsOf(const GraphBuilder& builder) {
  uint64_t sum = 0;
  for (const Work& work : WorkOf(builder)) sum += work.flops;
  return sum;
}

std::vector<Arg> ConvolutionNumbers(bool transposed) {
  return {Ints({1, 1}), Ints({0, 0}), Ints({1, 1}), transposed, Ints({0, 0}), 1};
}

TEST(StepWork, ConvolutionsSayWhatTheyCompute) {
  for (const bool transposed : {false, true}) {
    GraphBuilder g;
    const Ref x = g.Input({2, 4, 8, 8});
    const Ref filter = g.Input(transposed ? Shape{4, 6, 3, 3} : Shape{6, 4, 3, 3});
    std::vector<Arg> args{x, filter, nullptr};
    for (const Arg& number : ConvolutionNumbers(transposed)) args.push_back(number);
    const int out = transposed ? 10 : 6;
    g.Output(g.Node("aten::convolution", args, g.Meta({2, 6, out, out})));
    // Each position of the smaller image meets the filter, which is of all channels, once.
    const uint64_t positions = transposed ? 8 * 8 : 6 * 6;
    EXPECT_EQ(FlopsOf(g), 2 * 2 * positions * (4 * 6 * 3 * 3)) << transposed;
  }
}

TEST(StepWork, GradientsOfConvolutionsSayWhatTheyCompute) {
  for (const bool transposed : {false, true}) {
    GraphBuilder g;
    const int out = transposed ? 10 : 6;
    const Shape sizes = transposed ? Shape{4, 6, 3, 3} : Shape{6, 4, 3, 3};
    const Ref gradient = g.Input({2, 6, out, out}), x = g.Input({2, 4, 8, 8});
    const Ref filter = g.Input(sizes);
    std::vector<Arg> args{gradient, x, filter, nullptr};
    for (const Arg& number : ConvolutionNumbers(transposed)) args.push_back(number);
    args.push_back(List({true, true, false}));
    const Ref made =
        g.Node("aten::convolution_backward", args, {g.Meta({2, 4, 8, 8}), g.Meta(sizes), {}});
    g.Output(made);
    g.Output(made.result(1));
    const uint64_t positions = transposed ? 8 * 8 : 6 * 6;
    EXPECT_EQ(FlopsOf(g), 2 * 2 * 2 * positions * (4 * 6 * 3 * 3)) << transposed;
  }
}

TEST(StepWork, AttentionSaysWhatItComputes) {
  GraphBuilder g;
  const Ref q = g.Input({2, 3, 16, 8}), k = g.Input({2, 3, 32, 8}), v = g.Input({2, 3, 32, 8});
  const Ref made =
      g.Node("aten::_scaled_dot_product_flash_attention_for_cpu",
             {q, k, v, 0.0, false, nullptr, nullptr}, {g.Meta({2, 3, 16, 8}), g.Meta({2, 3, 16})});
  g.Output(made);
  EXPECT_EQ(FlopsOf(g), 2u * (2 * 3 * 16) * 32 * (8 + 8));
}

// 2^64 multiplications and additions, of bytes that are few enough.
// Kernels of ours say it too: of products with keys and with values.
TEST(StepWork, AttentionInTilesSaysWhatItComputes) {
  AttentionGraph forward({.width = 40}), backward({.width = 40});
  forward.Forward();
  backward.Backward();
  const uint64_t pairs = uint64_t{2} * 2 * 4 * 200 * 200;  // of two operations each
  const std::vector<Work> ahead = WorkOf(forward.g, 90), back = WorkOf(backward.g, 90);
  ASSERT_EQ(ahead.size(), 1u);
  EXPECT_EQ(ahead[0].flops, pairs * (40 + 64));
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].flops, pairs * (2 * 40 + 64));
  EXPECT_EQ(back[1].flops, pairs * (2 * 40 + 2 * 64));
}

TEST(StepWork, WhatDoesNotFitIsNotKnown) {
  GraphBuilder g;
  constexpr int kSize = 1 << 21;
  const Ref a = g.Input({kSize, kSize}), b = g.Input({kSize, kSize});
  g.Output(g.Node("aten::mm", {a, b}, g.Meta({kSize, kSize})));
  const std::vector<Work> work = WorkOf(g);
  ASSERT_EQ(work.size(), 1u);
  const uint64_t bytes = uint64_t{kSize} * kSize * kFloat;
  EXPECT_EQ(work[0], (Work{2 * bytes, bytes, 0}));
}

}  // namespace step_work_test
}  // namespace tensord::testing
