// SPDX-License-Identifier: Apache-2.0
// Random graphs: generated kernels, after fusion, against the reference interpreter of the program
// before it. TENSORD_FUZZ_GRAPHS and TENSORD_FUZZ_SEED make longer or other runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "compiler/decompose/lower_graph.h"
#include "tests/fuzz/random_graph.h"
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

void Compare(const Fuzzed& fuzzed, const KernelLibrary& library, int64_t symbol, int threads) {
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
  const auto actual = RunKernels(fuzzed.state, library, inputs, threads, options);
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

void FuzzGraphs(bool symbolic) {
  const int graphs = FromEnvironment("TENSORD_FUZZ_GRAPHS", 60);
  const int first = FromEnvironment("TENSORD_FUZZ_SEED", 1);
  KernelLibrary library(__builtin_cpu_supports("avx512vl") ? v1::ISA_AVX512 : v1::ISA_AVX2);
  std::vector<std::unique_ptr<Fuzzed>> all;
  std::vector<std::string> sources;
  for (int i = 0; i < graphs; ++i) {
    auto fuzzed = std::make_unique<Fuzzed>();
    fuzzed->seed = first + i;
    *fuzzed->job.mutable_graph() =
        RandomGraph(fuzzed->seed, {.nodes = 6 + i % 20, .symbolic = symbolic});
    fuzzed->job.mutable_target()->mutable_cpu()->set_isa(library.isa());
    fuzzed->state.job = &fuzzed->job;
    const absl::Status status = compiler::RunPipeline(fuzzed->state);
    ASSERT_TRUE(status.ok()) << "seed " << fuzzed->seed << ": " << status;
    for (const auto& kernel : fuzzed->state.kernels) sources.push_back(kernel.source);
    all.push_back(std::move(fuzzed));
  }
  const absl::Status added = library.Add(sources);
  ASSERT_TRUE(added.ok()) << added;
  for (const auto& fuzzed : all) {
    SCOPED_TRACE("seed " + std::to_string(fuzzed->seed));
    for (int threads : {1, 3})
      Compare(*fuzzed, library, /*symbol=*/threads == 1 ? 11 : 21, threads);
  }
}

TEST(FuzzKernels, StaticShapes) { FuzzGraphs(false); }
TEST(FuzzKernels, SymbolicShapes) { FuzzGraphs(true); }

}  // namespace
}  // namespace tensord::testing
