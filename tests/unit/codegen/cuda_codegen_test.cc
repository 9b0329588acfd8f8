// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of every operator, compiled to cubins without a GPU: they compile for every
// architecture and spill no registers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "compiler/pipeline.h"
#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/kept_jit.h"

namespace tensord::testing {
namespace {

class CudaCodegen : public ::testing::TestWithParam<int> {};

v1::Target TargetOf(int sm) {
  v1::Target target;
  target.mutable_cuda()->set_sm(sm);
  target.mutable_cuda()->set_multiprocessors(132);
  target.mutable_cuda()->set_shared_bytes_per_block(sm >= 90 ? 232448 : 101376);
  target.mutable_cuda()->set_l2_bytes(50 << 20);
  target.mutable_cuda()->set_registers_per_multiprocessor(65536);
  return target;
}

// The kernels whose launch lets them begin while those ahead still write, and the kernels of a
// source that wait for those ahead before they do anything else: they must be the same.
std::set<std::string> BegunEarly(const v1::Artifact& artifact, uint32_t module) {
  std::set<std::string> names;
  for (const v1::Step& step : artifact.steps()) {
    if (!step.has_launch() || step.launch().module() != module) continue;
    if (step.launch().cuda().waits_itself()) names.insert(step.launch().function());
  }
  return names;
}
std::set<std::string> Waiting(const std::string& source) {
  static const std::regex kEntry(R"(__launch_bounds__\([^)]*\) (\w+)\([^{]*\{\s*(\S+))");
  std::set<std::string> names;
  for (std::sregex_iterator entry(source.begin(), source.end(), kEntry), end; entry != end;
       ++entry) {
    if ((*entry)[2] == "tk::wait_for_launches();") names.insert((*entry)[1]);
  }
  return names;
}

TEST_P(CudaCodegen, EveryOperatorCompiles) {
  const char* dump = std::getenv("TENSORD_DUMP_CUDA");
  v1::JitJob job;
  *job.mutable_target() = TargetOf(GetParam());
  // One architecture compiles everything, the others a sample: what differs is in the prelude.
  std::map<std::string, std::string> seen;
  for (const GoldenCase* golden : GoldenParameters(GetParam() == 90 ? 1 : 40)) {
    v1::CompileJob compile;
    *compile.mutable_graph() = OnCuda(golden->graph);
    *compile.mutable_target() = job.target();
    compiler::CompileState state{.job = &compile};
    SCOPED_TRACE(compile.graph().nodes(0).ShortDebugString());
    const absl::Status status = compiler::RunPipeline(state);
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < state.result.units_size(); ++i) {
      const v1::KernelUnit& unit = state.result.units(i);
      const std::set<std::string> early = BegunEarly(state.result.artifact(), i);
      EXPECT_EQ(Waiting(unit.source()), early) << unit.source();
      EXPECT_EQ(early.empty(), GetParam() < 90) << unit.source();
      if (!seen.emplace(unit.source(), compile.graph().nodes(0).op()).second) continue;
      *job.add_units() = unit;
    }
  }
  // Many kernels at once take a fraction of the time: each in a namespace, its entries renamed.
  if (dump != nullptr) {
    for (int i = 0; i < job.units_size(); ++i) {
      std::ofstream(std::string(dump) + "/" + std::to_string(i) + ".cu") << job.units(i).source();
    }
  }
  jit::JitConfig config;
  if (const char* nvrtc = std::getenv("TENSORD_NVRTC")) config.nvrtc = nvrtc;
  config.work_folder = ::testing::TempDir();
  config.parallelism = 2;
  const auto result = KeptJit(job, config);
  ASSERT_TRUE(result.ok()) << result.status();
  for (const auto& failure : result->failures()) {
    ADD_FAILURE() << seen[job.units(failure.unit()).source()] << "\n"
                  << job.units(failure.unit()).source() << failure.log();
  }
}

INSTANTIATE_TEST_SUITE_P(Sm, CudaCodegen, ::testing::Values(80, 86, 89, 90, 100),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace tensord::testing
