// SPDX-License-Identifier: Apache-2.0
// The generated kernels of every operator against eager PyTorch, on every instruction set that this
// machine has: the cases of tests/golden, through the whole pipeline and the JIT. The widest set
// runs all of them. What is narrower shares everything but lanes and runs one in five, unless a
// filter asks for more.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/kernel_runner.h"

namespace tensord::testing {
namespace {

// Those of this machine, the widest first.
const std::vector<v1::Isa>& Isas() {
  static const auto* const isas = [] {
    auto* all = new std::vector<v1::Isa>;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      all->push_back(v1::ISA_AVX512);
    }
    if (__builtin_cpu_supports("avx2")) all->push_back(v1::ISA_AVX2);
    all->push_back(v1::ISA_SCALAR);
    return all;
  }();
  return *isas;
}

struct Parameter {
  v1::Isa isa;
  const GoldenCase* golden;

  std::string Name() const { return v1::Isa_Name(isa) + "_" + golden->name; }
};
void PrintTo(const Parameter& parameter, std::ostream* out) { *out << parameter.Name(); }

std::vector<Parameter> Parameters() {
  std::vector<Parameter> parameters;
  for (const v1::Isa isa : Isas()) {
    for (const GoldenCase* golden : GoldenParameters(isa == Isas().front() ? 1 : 5)) {
      // What is lowered on CUDA alone, the interpreter runs.
      if (golden->device() == v1::DEVICE_TYPE_CPU) parameters.push_back({isa, golden});
    }
  }
  return parameters;
}

struct Compiled {
  v1::CompileJob job;
  compiler::CompileState state;
  absl::Status status;
};

std::unique_ptr<Compiled> Compile(const Parameter& parameter) {
  auto compiled = std::make_unique<Compiled>();
  *compiled->job.mutable_graph() = parameter.golden->graph;
  compiled->job.mutable_target()->mutable_cpu()->set_isa(parameter.isa);
  compiled->state.job = &compiled->job;
  compiled->status = compiler::RunPipeline(compiled->state);
  return compiled;
}

bool IsSelected(const std::string& name) {
  const auto* suites = ::testing::UnitTest::GetInstance();
  static const auto* const selected = [suites] {
    auto* names = new std::set<std::string>;
    for (int i = 0; i < suites->total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *suites->GetTestSuite(i);
      for (int k = 0; k < suite.total_test_count(); ++k) {
        if (suite.GetTestInfo(k)->should_run()) names->insert(suite.GetTestInfo(k)->name());
      }
    }
    return names;
  }();
  return selected->contains("EqualsEager/" + name);
}

class CodegenGolden : public ::testing::TestWithParam<Parameter> {
 protected:
  // Kernels of all cases that filter and shard select, compiled together: half of the processors'
  // time goes when each waits for its own.
  static void SetUpTestSuite() {
    std::map<v1::Isa, std::vector<std::string>> sources;
    for (const Parameter& parameter : Parameters()) {
      if (!IsSelected(parameter.Name())) continue;
      std::unique_ptr<Compiled> compiled = Compile(parameter);
      for (const auto& kernel : compiled->state.kernels) {
        sources[parameter.isa].push_back(kernel.source);
      }
      compiled_[parameter.Name()] = std::move(compiled);
    }
    for (const auto& [isa, of_isa] : sources) {
      libraries_[isa] = std::make_unique<KernelLibrary>(isa);
      // A kernel that does not compile fails again in its own case.
      libraries_[isa]->Add(of_isa).IgnoreError();
    }
  }
  static void TearDownTestSuite() {
    compiled_.clear();
    libraries_.clear();
  }

  static inline std::map<std::string, std::unique_ptr<Compiled>> compiled_;
  static inline std::map<v1::Isa, std::unique_ptr<KernelLibrary>> libraries_;
};

TEST_P(CodegenGolden, EqualsEager) {
  const GoldenCase& golden = *GetParam().golden;
  const Compiled& compiled = *compiled_.at(GetParam().Name());
  SCOPED_TRACE(golden.graph.nodes(0).ShortDebugString());
  ASSERT_TRUE(compiled.status.ok()) << compiled.status;
  KernelLibrary& library = *libraries_.at(GetParam().isa);
  for (const auto& kernel : compiled.state.kernels) {
    const absl::Status status = library.Add({kernel.source});
    ASSERT_TRUE(status.ok()) << kernel.source << status;
  }
  for (int threads : {1, 3}) {
    std::vector<HostTensor> inputs = golden.inputs;
    ExpectResults(golden, RunKernels(compiled.state, library, inputs, threads));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, CodegenGolden, ::testing::ValuesIn(Parameters()),
                         [](const auto& info) { return info.param.Name(); });

}  // namespace
}  // namespace tensord::testing
