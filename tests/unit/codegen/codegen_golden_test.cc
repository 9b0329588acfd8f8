// The generated kernels of every operator against eager PyTorch, on every instruction set that this
// machine has: the cases of tests/golden, through the whole pipeline and the JIT.
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/kernel_runner.h"

namespace tensord::testing {
namespace {

using nlohmann::json;

bool Supports(v1::Isa isa) {
  switch (isa) {
    case v1::ISA_AVX512:
      return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    case v1::ISA_AVX2:
      return __builtin_cpu_supports("avx2");
    default:
      return true;
  }
}

struct Case {
  const json* source;
  v1::CompileJob job;
  compiler::CompileState state;
};

class CodegenGolden : public ::testing::TestWithParam<v1::Isa> {};

TEST_P(CodegenGolden, EqualsEager) {
  if (!Supports(GetParam())) GTEST_SKIP() << "this machine lacks " << v1::Isa_Name(GetParam());
  std::vector<json> files;
  for (const char* name : {"decompose_cases.json", "elementwise_cases.json"}) {
    std::ifstream file(std::string(TENSORD_GOLDEN_DIR "/") + name);
    files.push_back(json::parse(file));
  }
  // The reference set runs a part of the cases: it is slow to compile and shares everything but
  // lanes.
  const size_t stride = GetParam() == v1::ISA_AVX512 ? 1 : 5;
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<std::string> sources;
  size_t number = 0;
  for (const json& file : files) {
    for (const json& c : file) {
      if (number++ % stride != 0) continue;
      auto made = std::make_unique<Case>();
      made->source = &c;
      ASSERT_TRUE(
          google::protobuf::util::JsonStringToMessage(c["graph"].dump(), made->job.mutable_graph())
              .ok());
      // What is lowered on CUDA alone, the interpreter runs.
      if (made->job.graph().nodes(0).outputs(0).device() == v1::DEVICE_TYPE_CUDA) continue;
      made->job.mutable_target()->mutable_cpu()->set_isa(GetParam());
      made->state.job = &made->job;
      SCOPED_TRACE(made->job.graph().nodes(0).ShortDebugString());
      const absl::Status status = compiler::RunPipeline(made->state);
      ASSERT_TRUE(status.ok()) << status;
      for (const auto& kernel : made->state.kernels) sources.push_back(kernel.source);
      cases.push_back(std::move(made));
    }
  }
  KernelLibrary library(GetParam());
  if (!library.Add(sources).ok()) {
    // One by one, to name the case at fault.
    for (const auto& made : cases) {
      for (const auto& kernel : made->state.kernels) {
        const absl::Status alone = library.Add({kernel.source});
        EXPECT_TRUE(alone.ok()) << made->job.graph().nodes(0).ShortDebugString() << "\n"
                                << kernel.source << alone;
      }
    }
    FAIL() << "kernels that do not compile";
  }
  for (const auto& made : cases) {
    const json& c = *made->source;
    SCOPED_TRACE(made->job.graph().nodes(0).ShortDebugString());
    for (int threads : {1, 3}) {
      std::vector<HostTensor> inputs;
      for (const json& input : c["inputs"]) inputs.push_back(TensorOf(input));
      const std::vector<HostTensor> outputs = RunKernels(made->state, library, inputs, threads);
      ASSERT_EQ(outputs.size(), c["results"].size());
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (c["results"][i].is_null()) continue;
        const std::vector<double> actual = outputs[i].Values(),
                                  wanted = TensorOf(c["results"][i]).Values();
        ASSERT_EQ(actual.size(), wanted.size());
        for (size_t k = 0; k < actual.size(); ++k) {
          if (Close(actual[k], wanted[k], c["tolerance"].get<double>())) continue;
          ADD_FAILURE() << "result " << i << ", element " << k << ": " << actual[k]
                        << ", eager has " << wanted[k];
          break;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CodegenGolden,
                         ::testing::Values(v1::ISA_AVX512, v1::ISA_AVX2, v1::ISA_SCALAR),
                         [](const auto& info) { return v1::Isa_Name(info.param); });

}  // namespace
}  // namespace tensord::testing
