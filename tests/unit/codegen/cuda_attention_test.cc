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
    // Those of 128 columns have more sums than registers.
    if (!absl::StartsWith(names[i], "wide")) {
      EXPECT_EQ(result->resources(i).spill_bytes(), 0) << names[i];
    }
  }
}

}  // namespace cuda_attention_test
}  // namespace tensord::testing
