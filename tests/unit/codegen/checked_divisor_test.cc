// SPDX-License-Identifier: Apache-2.0
// Divisors of integers in generated kernels: checked on the CPU, where they are not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace checked_divisor_test {

using ::testing::Contains;
using ::testing::Not;

struct Division {
  const char* op = "aten::remainder.Tensor";
  v1::DType dtype = v1::DTYPE_INT32;
  std::optional<int64_t> divisor;  // a tensor where there is none
  bool unchecked = false;
  v1::DeviceType device = v1::DEVICE_TYPE_CPU;
};

std::vector<std::string> CallsOfDivision(const Division& division) {
  GraphBuilder g(division.device);
  const Ref x = g.Input({300}, division.dtype);
  const Arg divisor = division.divisor ? Arg(*division.divisor) : g.Input({300}, division.dtype);
  g.Output(g.Node(division.op, {x, divisor}, g.Meta({300}, division.dtype)));
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_options()->set_unchecked(division.unchecked);
  if (division.device == v1::DEVICE_TYPE_CUDA) {
    job.mutable_target()->mutable_cuda()->set_sm(90);
  } else {
    job.mutable_target()->mutable_cpu()->set_isa(v1::ISA_AVX2);
  }
  compiler::CompileState state;
  state.job = &job;
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  return state.kernels.size() == 1 ? CallsOf(state.kernels[0].ir) : std::vector<std::string>{};
}

TEST(CheckedDivisor, IsForIntegersOnTheCpu) {
  for (const char* op : {"aten::floor_divide", "aten::remainder.Tensor", "aten::fmod.Tensor"}) {
    EXPECT_THAT(CallsOfDivision({.op = op}), Contains("checked_divisor")) << op;
    EXPECT_THAT(CallsOfDivision({.op = op, .dtype = v1::DTYPE_FLOAT32}),
                Not(Contains("checked_divisor")))
        << op;
    EXPECT_THAT(CallsOfDivision({.op = op, .device = v1::DEVICE_TYPE_CUDA}),
                Not(Contains("checked_divisor")))
        << op;
  }
}

TEST(CheckedDivisor, IsNotThereWhereNobodyChecks) {
  EXPECT_THAT(CallsOfDivision({.unchecked = true}), Not(Contains("checked_divisor")));
}

TEST(CheckedDivisor, IsNotThereWhereItIsKnown) {
  for (const v1::DType dtype : {v1::DTYPE_INT64, v1::DTYPE_UINT8}) {
    const char* op = "aten::remainder.Scalar";
    EXPECT_THAT(CallsOfDivision({.op = op, .dtype = dtype, .divisor = 3}),
                Not(Contains("checked_divisor")));
    EXPECT_THAT(CallsOfDivision({.op = op, .dtype = dtype, .divisor = 0}),
                Contains("checked_divisor"));
  }
}

}  // namespace checked_divisor_test
}  // namespace tensord::testing
