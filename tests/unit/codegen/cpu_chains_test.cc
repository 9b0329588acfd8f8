// SPDX-License-Identifier: Apache-2.0
// Long sums on the CPU: roundings do not add up along one chain of additions. All terms of a test
// are equal, so that errors of a chain point in one direction.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/interpreter.h"
#include "tests/unit/testing/kernel_runner.h"

namespace tensord::testing {
namespace cpu_chains_test {

constexpr float kTerm = 0.1f;
// Of a result's relative error. In one chain it would be from 1e-5 on.
constexpr double kTolerance = 5e-6;

struct Case {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<int> dims;
  std::vector<int64_t> beside;  // of a second operand, which is subtracted; none where empty
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Shape ShapeOf(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

HostTensor Filled(const std::vector<int64_t>& sizes, double value) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return MakeTensor(sizes, std::vector<double>(static_cast<size_t>(count), value));
}

class Chains : public ::testing::TestWithParam<std::pair<v1::Isa, Case>> {};

TEST_P(Chains, AreShort) {
  const auto& [isa, c] = GetParam();
  GraphBuilder g;
  const Ref x = g.Input(ShapeOf(c.sizes));
  std::vector<HostTensor> inputs = {Filled(c.sizes, kTerm)};
  Ref term = x;
  double value = kTerm;
  if (!c.beside.empty()) {
    const Ref y = g.Input(ShapeOf(c.beside));
    inputs.push_back(Filled(c.beside, -kTerm));
    value += kTerm;
    term = g.Node("aten::sub.Tensor", {x, y, 1}, g.Meta(ShapeOf(c.sizes)));
  }
  Shape left;
  double count = 1;
  for (size_t d = 0; d < c.sizes.size(); ++d) {
    const bool is_reduced = std::ranges::find(c.dims, static_cast<int>(d)) != c.dims.end();
    if (is_reduced) count *= static_cast<double>(c.sizes[d]);
    if (!is_reduced) left.emplace_back(c.sizes[d]);
  }
  g.Output(g.Node("aten::sum.dim_IntList",
                  {term, Ints({c.dims.begin(), c.dims.end()}), false, nullptr}, g.Meta(left)));
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_target()->mutable_cpu()->set_isa(isa);
  compiler::CompileState state{.job = &job};
  const absl::Status status = compiler::RunPipeline(state);
  ASSERT_TRUE(status.ok()) << status;
  KernelLibrary library(isa);
  for (const auto& kernel : state.kernels) {
    const absl::Status added = library.Add({kernel.source});
    ASSERT_TRUE(added.ok()) << kernel.source << added;
  }
  for (const int threads : {1, 3}) {
    for (const double sum : RunKernels(state, library, inputs, threads).at(0).Values()) {
      ASSERT_LT(std::abs(sum / (count * value) - 1), kTolerance) << sum << ": " << threads;
    }
  }
}

std::vector<std::pair<v1::Isa, Case>> Cases() {
  const std::vector<Case> cases = {
      {"columns", {100000, 4}, {0}, {}},
      {"columns_and_a_tail", {20000, 21}, {0}, {}},
      {"all_of_short_rows", {100000, 4}, {0, 1}, {100000, 1}},
      {"rows_of_one_loop", {2, 300001}, {1}, {}},
      {"rows_of_several_loops", {300, 5, 401}, {0, 2}, {}},
      {"short_vector_loops", {80, 170, 4}, {0, 1, 2}, {170, 1}},
      {"blocks_in_even_parts", {2, 8192, 64}, {1}, {}},
      {"blocks_in_uneven_parts", {2, 8191, 64}, {1}, {}},
      {"blocks_of_several_loops", {20, 3, 2000, 70}, {0, 2}, {}},
  };
  std::vector<std::pair<v1::Isa, Case>> all;
  for (const Case& c : cases) {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      all.emplace_back(v1::ISA_AVX512, c);
    }
    if (__builtin_cpu_supports("avx2")) all.emplace_back(v1::ISA_AVX2, c);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Sums, Chains, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return v1::Isa_Name(info.param.first) + "_" + info.param.second.name;
});

}  // namespace cpu_chains_test
}  // namespace tensord::testing
