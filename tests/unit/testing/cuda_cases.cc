// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/testing/cuda_cases.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "compiler/pipeline.h"
#include "tests/unit/testing/cuda_kernel_runner.h"

namespace tensord::testing {
namespace {

using compiler::CompileState;

// Of a size that is known when the kernels run.
constexpr int kHint = 1000;

struct Compiled {
  v1::CompileJob job;
  CompileState state;
};

std::unique_ptr<Compiled> Compile(const CudaCase& c) {
  auto compiled = std::make_unique<Compiled>();
  GraphBuilder graph = c.graph;
  *compiled->job.mutable_graph() = graph.graph();
  v1::CudaTarget* target = compiled->job.mutable_target()->mutable_cuda();
  target->set_sm(90);
  target->set_multiprocessors(c.multiprocessors);
  target->set_shared_bytes_per_block(232448);
  target->set_l2_bytes(c.l2_bytes);
  target->set_registers_per_multiprocessor(65536);
  compiled->state.job = &compiled->job;
  const absl::Status status = compiler::RunPipeline(compiled->state);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status;
  return compiled;
}

std::vector<std::string> PlansOf(const Compiled& compiled) {
  std::vector<std::string> plans;
  for (const compiler::KernelPlan& kernel : compiled.state.kernel_plans) {
    for (const auto& nest : std::get<compiler::CudaKernelPlan>(kernel).nests) {
      plans.push_back(ToString(nest.plan));
    }
  }
  return plans;
}

// Between -2 and 2, in no order.
double Scattered(uint64_t number) {
  const uint64_t mixed = (number + 1) * 0x9E3779B97F4A7C15ull;
  return static_cast<double>((mixed ^ mixed >> 29) % 1021) / 255 - 2;
}

std::vector<int64_t> SizesOf(const v1::TensorMeta& meta, const CudaCase& c) {
  std::vector<int64_t> sizes;
  for (const v1::SymExpr& size : meta.sizes()) {
    const bool is_symbol = size.kind_case() == v1::SymExpr::kSymbol;
    sizes.push_back(is_symbol ? c.symbols.at(static_cast<int>(size.symbol())) : size.constant());
  }
  return sizes;
}

HostTensor InputOf(const v1::TensorMeta& meta, size_t number, int64_t classes, const CudaCase& c) {
  const std::vector<int64_t> sizes = SizesOf(meta, c);
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  const bool is_real = compiler::IsFloating(meta.dtype());
  if (meta.dtype() == v1::DTYPE_BOOL) classes = 2;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) {
    const double x = Scattered(number << 40 | static_cast<uint64_t>(i));
    values[i] = is_real ? x : std::floor((x + 2) / 4.01 * static_cast<double>(classes));
  }
  if (sizes.empty() && is_real) values[0] = 3;  // a step, a number of targets
  HostTensor dense = MakeTensor(sizes, values, meta.dtype());
  std::vector<int64_t> strides;
  for (const v1::SymExpr& stride : meta.strides()) {
    if (stride.kind_case() != v1::SymExpr::kConstant) return dense;
    strides.push_back(stride.constant());
  }
  if (count == 0 || dense.strides == strides) return dense;
  // What lies between the rows is nobody's number.
  HostTensor wide = WithStrides(dense, strides);
  const HostTensor marks =
      WithStrides(MakeTensor(sizes, std::vector<double>(count, 1), meta.dtype()), strides);
  for (size_t i = 0; i < wide.storage.size(); ++i) {
    if (marks.storage[i].real == 0) wide.storage[i].real = std::numeric_limits<double>::quiet_NaN();
  }
  return wide;
}

// Of complex numbers in row-major order, as the real ones that kernels see.
v1::TensorMeta MetaOfParts(const v1::TensorMeta& of_complex) {
  v1::TensorMeta meta = of_complex;
  meta.set_dtype(compiler::PartType(of_complex.dtype()));
  for (v1::SymExpr& stride : *meta.mutable_strides()) stride.set_constant(stride.constant() * 2);
  meta.add_sizes()->set_constant(2);
  meta.add_strides()->set_constant(1);
  return meta;
}

std::vector<HostTensor> InputsOf(const Compiled& compiled, const CudaCase& c) {
  int64_t classes = c.classes;
  std::vector<HostTensor> inputs;
  for (const v1::Input& input : compiled.job.graph().inputs()) {
    const std::vector<int64_t> sizes = SizesOf(input.tensor(), c);
    if (classes == 0 && sizes.size() == 2) classes = sizes[1];
    v1::TensorMeta meta = input.tensor();
    if (compiler::IsComplex(meta.dtype())) meta = MetaOfParts(meta);
    inputs.push_back(InputOf(meta, inputs.size(), classes, c));
  }
  return inputs;
}

// The first element that differs, or nothing.
std::string Difference(const HostTensor& result, const HostTensor& wanted, double slack) {
  if (result.dtype != wanted.dtype || result.sizes != wanted.sizes) return "another type or shape";
  const std::vector<double> a = result.Values(), b = wanted.Values();
  double largest = 0;
  for (double x : b) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  // One unit in the last place, for reals; beside it what a sum of large elements leaves.
  const bool is_narrow = result.dtype == v1::DTYPE_BFLOAT16;
  const bool is_real = compiler::IsFloating(result.dtype);
  const double relative = !is_real ? 0 : is_narrow ? 0x1p-7 : 1e-5;
  const double absolute = (!is_real ? 0 : is_narrow ? slack : 1e-5) * largest;
  std::string first;
  int64_t differ = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ||
                      std::fabs(a[i] - b[i]) <= relative * std::fabs(b[i]) + absolute;
    if (!same && differ++ == 0) {
      first = absl::StrCat("element ", i, " is ", a[i], ", not ", b[i]);
    }
  }
  return differ == 0 ? "" : absl::StrCat(first, "; ", differ, " of ", b.size(), " differ");
}

}  // namespace

std::vector<v1::KernelUnit> UnitsOf(const CudaCase& c) {
  const auto units = Compile(c)->state.result.units();
  return {units.begin(), units.end()};
}

std::vector<compiler::ir::Kernel> KernelsOf(const CudaCase& c) {
  const auto compiled = Compile(c);
  std::vector<compiler::ir::Kernel> kernels;
  for (const compiler::KernelSource& kernel : compiled->state.kernels) {
    if (!kernel.source.empty()) kernels.push_back(kernel.ir);
  }
  return kernels;
}

void ExpectPlansAndNumbers(const std::vector<CudaCase>& cases) {
  std::vector<std::unique_ptr<Compiled>> compiled;
  std::vector<const compiler::KernelSource*> kernels;
  for (const CudaCase& c : cases) {
    compiled.push_back(Compile(c));
    EXPECT_EQ(PlansOf(*compiled.back()), c.plans) << c.name;
    for (const auto& kernel : compiled.back()->state.kernels) kernels.push_back(&kernel);
  }
  CudaKernelLibrary library;
  const absl::Status built = library.Build(kernels);
  ASSERT_TRUE(built.ok()) << built;
  const auto launch = [&](const compiler::KernelSource& kernel, const KernelArguments& arguments) {
    library.Launch(kernel, arguments);
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const InterpreterOptions options{.symbols = cases[i].symbols};
    std::vector<HostTensor> inputs = InputsOf(*compiled[i], cases[i]), same = inputs;
    const auto results = RunSchedule(compiled[i]->state, launch, inputs, options);
    const auto wanted = Interpret(compiled[i]->state.program, same, options);
    ASSERT_EQ(results.size(), wanted.size());
    for (size_t r = 0; r < results.size(); ++r) {
      const std::string difference = Difference(results[r], wanted[r], cases[i].slack);
      if (difference.empty()) continue;
      ADD_FAILURE() << cases[i].name << ", result " << r << ": " << difference;
      for (const auto& kernel : compiled[i]->state.kernels) std::cerr << kernel.source << "\n";
    }
    for (size_t k = 0; k < inputs.size(); ++k) {  // they may have been written
      const std::string difference = Difference(inputs[k], same[k], cases[i].slack);
      EXPECT_EQ(difference, "") << cases[i].name << ", input " << k;
    }
  }
}

Dim S() { return GraphBuilder().Symbol(kHint); }  // symbol 0

void ExpectPlansAndNumbers(std::vector<CudaCase> cases, const std::vector<int64_t>& sizes) {
  ASSERT_EQ(cases.size(), sizes.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].graph.Symbol(kHint);
    cases[i].symbols = {{0, sizes[i]}};
    cases[i].slack = 5e-3;
  }
  ExpectPlansAndNumbers(cases);
}

}  // namespace tensord::testing
