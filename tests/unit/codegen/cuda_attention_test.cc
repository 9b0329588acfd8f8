// SPDX-License-Identifier: Apache-2.0
// Kernels of attention: how they are launched, and that NVRTC compiles them for warpgroups.
#include <absl/strings/match.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/testing/attention_graphs.h"
#include "tests/unit/testing/cuda_cases.h"
#include "tests/unit/testing/cuda_tests.h"
#include "tests/unit/testing/kept_jit.h"

namespace tensord::testing {
namespace cuda_attention_test {

using ::testing::HasSubstr;

CudaCase Forward(const std::string& name, const AttentionCase& of) {
  AttentionGraph graph(of);
  graph.Forward();
  return {.name = name, .graph = std::move(graph.g)};
}
CudaCase Backward(const std::string& name, const AttentionCase& of) {
  AttentionGraph graph(of);
  graph.Backward();
  return {.name = name, .graph = std::move(graph.g)};
}

std::vector<CudaCase> Cases() {
  const AttentionCase half{.dtype = v1::DTYPE_FLOAT16, .is_causal = true},
      wide{.width = 128, .value_width = 128, .is_causal = true},
      odd{.groups = 4, .queries = 1, .keys = 333, .width = 40, .value_width = 72},
      any_size{.has_any_size = true};
  return {Forward("forward", {}),        Backward("backward", {}),
          Forward("half", half),         Backward("half, backward", half),
          Forward("wide", wide),         Backward("wide, backward", wide),
          Forward("odd", odd),           Backward("odd, backward", odd),
          Forward("any size", any_size), Backward("any size, backward", any_size)};
}

TEST(CudaAttention, AKernelHasATileOfRowsForEachBlock) {
  const std::vector<compiler::ir::Kernel> kernels =
      KernelsOf(Backward("", {.width = 128, .value_width = 128}));
  ASSERT_EQ(kernels.size(), 2u);
  // 128 queries, whose blocks have four warps for every 64; and 64 keys.
  EXPECT_EQ(kernels[0].cuda[0].threads, 128);
  EXPECT_EQ(kernels[1].cuda[0].threads, 128);
  const std::vector<compiler::ir::Kernel> of_blocks =
      KernelsOf(Backward("", {.width = 128, .value_width = 128, .is_causal = true}));
  EXPECT_EQ(of_blocks[0].cuda[0].threads, 256);
}

// The logarithm of its sum, and what gradients of its weights have in common.
TEST(CudaAttention, WhatAQueryHasIsReadOnce) {
  for (const v1::KernelUnit& unit : UnitsOf(Backward("", {}))) {
    const std::string& source = unit.source();
    EXPECT_THAT(source, HasSubstr("tk::joined<2>("));
    const size_t score = source.find("const auto function0 = ");
    ASSERT_NE(score, std::string::npos);
    EXPECT_THAT(source.substr(score), HasSubstr("of_query.at[1]"));
    EXPECT_THAT(source.substr(score), Not(HasSubstr("tk::load")));
  }
}

// The scale, unless it is of some scores alone.
TEST(CudaAttention, WhatScoresAreMultipliedByLastIsPartOfTheExponential) {
  for (const bool is_causal : {false, true}) {
    const v1::KernelUnit unit = UnitsOf(Forward("", {.is_causal = is_causal}))[0];
    EXPECT_THAT(unit.source(), HasSubstr(", float(0.125), values_of_query, "));
    EXPECT_THAT(unit.source(), Not(HasSubstr("tk::mul(")));
  }
  AttentionGraph graph({.is_causal = true});
  const Ref products = graph.Products(graph.query, graph.key, 0);
  graph.g.Output(graph.Attention(
      graph.Masked(graph.Scaled(products), -std::numeric_limits<double>::infinity()), products));
  const v1::KernelUnit unit = UnitsOf({.name = "", .graph = std::move(graph.g)})[0];
  EXPECT_THAT(unit.source(), HasSubstr(", float(1), values_of_query, "));
  EXPECT_THAT(unit.source(), HasSubstr("tk::mul("));
}

// But the logarithm of a sum is in float32.
TEST(CudaAttention, ExponentialsAreShortWhereTheirResultIsRounded) {
  for (const v1::KernelUnit& unit : UnitsOf(Backward("", {}))) {
    EXPECT_THAT(unit.source(), HasSubstr("tk::exp_approx("));
    EXPECT_THAT(unit.source(), Not(HasSubstr("tk::exp(")));
  }
  AttentionGraph graph({});
  const Ref scaled = graph.Scaled(graph.Products(graph.query, graph.key, 0));
  const Ref scores = graph.g.Node("aten::exp", {scaled}, graph.Meta(graph.scores));
  graph.g.Output(graph.Attention(scores, scores));
  for (const v1::KernelUnit& unit : UnitsOf({.name = "", .graph = std::move(graph.g)})) {
    EXPECT_THAT(unit.source(), HasSubstr("tk::exp("));
  }
}

// In gradients, too, scores are what they are in forward.
TEST(CudaAttention, AnExponentialInAScoreIsExact) {
  AttentionGraph graph({});
  const auto scored = [&](const char* op, Ref a, Ref b) {
    return graph.g.Node(op, {a, b}, graph.Meta(graph.scores));
  };
  const auto exponential = [&](Ref of) {
    return graph.g.Node("aten::exp", {of}, graph.Meta(graph.scores));
  };
  const Ref of_weights = graph.Products(graph.grad, graph.value, 2);
  const Ref scores = exponential(graph.Scaled(graph.Products(graph.query, graph.key, 1)));
  const Ref less =
      graph.g.Node("aten::sub.Tensor", {scores, graph.sums, 1}, graph.Meta(graph.scores));
  const Ref of_scores = scored("aten::mul.Tensor", exponential(less), of_weights);
  graph.g.Output(graph.g.Node(
      "tensord::attention_query_gradient",
      {of_scores, of_scores, graph.key, graph.Blocks(), graph.Sizes(), Ints({0, 1, 2, 3})},
      graph.Meta({2, 4, 200, 64}, v1::DTYPE_BFLOAT16)));
  for (const v1::KernelUnit& unit : UnitsOf({.name = "", .graph = std::move(graph.g)})) {
    EXPECT_THAT(unit.source(), HasSubstr("tk::exp("));
    EXPECT_THAT(unit.source(), HasSubstr("tk::exp_approx("));
  }
}

TEST(CudaAttention, KernelsCompileForWarpgroups) {
  if (CudaTestsAreOff()) GTEST_SKIP() << "TENSORD_NO_CUDA_TESTS=1";
  jit::JitConfig config;
  if (const char* nvrtc = std::getenv("TENSORD_NVRTC")) config.nvrtc = nvrtc;
  config.work_folder = ::testing::TempDir();
  config.parallelism = 2;
  v1::JitJob job;
  std::vector<std::string> names;
  for (const CudaCase& c : Cases()) {
    for (const v1::KernelUnit& unit : UnitsOf(c)) {
      *job.add_units() = unit;
      names.push_back(c.name);
    }
  }
  EXPECT_EQ(names.size(), 15u);
  job.mutable_target()->mutable_cuda()->set_sm(90);
  const auto result = KeptJit(job, config);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const auto& failure : result->failures()) {
    ADD_FAILURE() << job.units(failure.unit()).source() << failure.log();
  }
  ASSERT_EQ(result->resources_size(), 15);
  for (int i = 0; i < result->resources_size(); ++i) {
    EXPECT_THAT(job.units(i).source(), HasSubstr("tk::attention_")) << names[i];
    // Those of 128 columns have more sums than registers; room for a third block costs gradients
    // some, and takes less time.
    if (!absl::StartsWith(names[i], "wide")) {
      const int most = absl::StrContains(names[i], "backward") ? 32 : 0;
      EXPECT_LE(result->resources(i).spill_bytes(), most) << names[i];
    }
  }
}

}  // namespace cuda_attention_test
}  // namespace tensord::testing
