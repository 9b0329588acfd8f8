// SPDX-License-Identifier: Apache-2.0
// Random graphs: generated kernels, after fusion, against the reference interpreter of the program
// before it; those for CUDA run on the host. TENSORD_FUZZ_GRAPHS and TENSORD_FUZZ_SEED make longer
// or other runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>

#include "compiler/decompose/lower_graph.h"
#include "tests/fuzz/random_graph.h"
#include "tests/unit/testing/cuda_kernel_runner.h"
#include "tests/unit/testing/kernel_runner.h"
#include "tests/unit/testing/verified_import.h"

namespace tensord::testing {
namespace {

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

HostTensor RandomTensor(const v1::TensorMeta& meta, int64_t symbol, std::mt19937& random) {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (const v1::SymExpr& size : meta.sizes()) {
    sizes.push_back(size.kind_case() == v1::SymExpr::kSymbol ? symbol : size.constant());
    count *= sizes.back();
  }
  std::normal_distribution<double> normal;
  std::vector<double> values(count);
  for (double& value : values) value = normal(random);
  return MakeTensor(sizes, values);
}

struct Fuzzed {
  uint64_t seed;
  v1::CompileJob job;
  compiler::CompileState state;
};

using Run = std::function<std::vector<HostTensor>(
    const compiler::CompileState&, std::vector<HostTensor>& inputs, const InterpreterOptions&)>;

void Compare(const Fuzzed& fuzzed, int64_t symbol, const Run& run) {
  auto graph = VerifiedImport(fuzzed.job.graph());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto program = compiler::LowerGraph(*graph);
  ASSERT_TRUE(program.ok()) << program.status();
  std::mt19937 random(static_cast<unsigned>(fuzzed.seed));
  std::vector<HostTensor> inputs;
  for (const v1::Input& input : fuzzed.job.graph().inputs()) {
    inputs.push_back(RandomTensor(input.tensor(), symbol, random));
  }
  InterpreterOptions options;
  if (fuzzed.job.graph().symbols_size() > 0) options.symbols[0] = symbol;
  std::vector<HostTensor> reference_inputs = inputs;
  const auto expected = Interpret(*program, reference_inputs, options);
  const auto actual = run(fuzzed.state, inputs, options);
  const auto compare = [&](const HostTensor& a, const HostTensor& e, const std::string& what) {
    const std::vector<double> x = a.Values(), y = e.Values();
    ASSERT_EQ(x.size(), y.size()) << what;
    for (size_t i = 0; i < x.size(); ++i) {
      const bool close = std::abs(x[i] - y[i]) <= 2e-4 * (1 + std::abs(y[i])) ||
                         (std::isnan(x[i]) && std::isnan(y[i])) || x[i] == y[i];
      ASSERT_TRUE(close) << what << ", element " << i << ": " << x[i] << ", expected " << y[i]
                         << "\n"
                         << compiler::ToString(*program);
    }
  };
  for (size_t i = 0; i < expected.size(); ++i) {
    compare(actual[i], expected[i], "output " + std::to_string(i));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    compare(inputs[i], reference_inputs[i], "input " + std::to_string(i));
  }
}

// Random graphs of a device, compiled; empty after a failure.
std::vector<std::unique_ptr<Fuzzed>> FuzzedGraphs(bool symbolic, const v1::Target& target) {
  const int graphs = FromEnvironment("TENSORD_FUZZ_GRAPHS", 60);
  const int first = FromEnvironment("TENSORD_FUZZ_SEED", 1);
  const v1::DeviceType device = target.has_cuda() ? v1::DEVICE_TYPE_CUDA : v1::DEVICE_TYPE_CPU;
  std::vector<std::unique_ptr<Fuzzed>> all;
  for (int i = 0; i < graphs; ++i) {
    auto fuzzed = std::make_unique<Fuzzed>();
    fuzzed->seed = first + i;
    *fuzzed->job.mutable_graph() =
        RandomGraph(fuzzed->seed, {.nodes = 6 + i % 20, .symbolic = symbolic, .device = device});
    *fuzzed->job.mutable_target() = target;
    fuzzed->state.job = &fuzzed->job;
    const absl::Status status = compiler::RunPipeline(fuzzed->state);
    EXPECT_TRUE(status.ok()) << "seed " << fuzzed->seed << ": " << status;
    if (!status.ok()) return {};
    all.push_back(std::move(fuzzed));
  }
  return all;
}

void FuzzCpu(bool symbolic) {
  KernelLibrary library(__builtin_cpu_supports("avx512vl") ? v1::ISA_AVX512 : v1::ISA_AVX2);
  v1::Target target;
  target.mutable_cpu()->set_isa(library.isa());
  const auto all = FuzzedGraphs(symbolic, target);
  std::vector<std::string> sources;
  for (const auto& fuzzed : all) {
    for (const auto& kernel : fuzzed->state.kernels) sources.push_back(kernel.source);
  }
  const absl::Status added = library.Add(sources);
  ASSERT_TRUE(added.ok()) << added;
  for (const auto& fuzzed : all) {
    SCOPED_TRACE("seed " + std::to_string(fuzzed->seed));
    for (int threads : {1, 3}) {
      Compare(*fuzzed, /*symbol=*/threads == 1 ? 11 : 21,
              [&](const auto& state, auto& inputs, const auto& options) {
                return RunKernels(state, library, inputs, threads, options);
              });
    }
  }
}

// multiprocessors: a GPU of few gives rows of small tensors to whole blocks.
void FuzzCuda(bool symbolic, int multiprocessors) {
  v1::Target target;
  v1::CudaTarget* cuda = target.mutable_cuda();
  cuda->set_sm(90);
  cuda->set_multiprocessors(multiprocessors);
  cuda->set_shared_bytes_per_block(232448);
  cuda->set_l2_bytes(50 << 20);
  cuda->set_registers_per_multiprocessor(65536);
  const auto all = FuzzedGraphs(symbolic, target);
  std::vector<const compiler::KernelSource*> kernels;
  for (const auto& fuzzed : all) {
    for (const auto& kernel : fuzzed->state.kernels) kernels.push_back(&kernel);
  }
  CudaKernelLibrary library;
  const absl::Status built = library.Build(kernels);
  ASSERT_TRUE(built.ok()) << built;
  const KernelLauncher launch = [&](const auto& kernel, const KernelArguments& arguments) {
    library.Launch(kernel, arguments);
  };
  for (const auto& fuzzed : all) {
    SCOPED_TRACE("seed " + std::to_string(fuzzed->seed));
    Compare(*fuzzed, /*symbol=*/21, [&](const auto& state, auto& inputs, const auto& options) {
      return RunSchedule(state, launch, inputs, options);
    });
  }
}

TEST(FuzzKernels, StaticShapes) { FuzzCpu(false); }
TEST(FuzzKernels, SymbolicShapes) { FuzzCpu(true); }
TEST(FuzzKernels, CudaStaticShapes) { FuzzCuda(false, 2); }
TEST(FuzzKernels, CudaSymbolicShapes) { FuzzCuda(true, 2); }
TEST(FuzzKernels, CudaManyMultiprocessors) { FuzzCuda(false, 132); }

}  // namespace
}  // namespace tensord::testing
