// SPDX-License-Identifier: Apache-2.0
// Indices from data in generated kernels: checked once, with no bounds besides, or bounded as
// before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/graph_builder.h"
#include "tests/unit/testing/kernel_ir.h"

namespace tensord::testing {
namespace checked_index_test {

using ::testing::Contains;
using ::testing::Not;

// Rows of a table by tokens, whose numbers a kernel finds.
std::vector<std::string> CallsOfRows(v1::DeviceType device, const char* op, bool unchecked) {
  GraphBuilder g(device);
  const Ref table = g.Input({100, 64}), tokens = g.Input({300}, v1::DTYPE_INT64);
  const Ref rows = g.Node(op, {table, List({tokens})}, g.Meta({300, 64}));
  g.Output(g.Node("aten::mul.Scalar", {rows, 2.0}, g.Meta({300, 64})));
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_options()->set_unchecked(unchecked);
  if (device == v1::DEVICE_TYPE_CUDA) {
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

TEST(CheckedIndex, TakesThePlaceOfBounds) {
  for (const v1::DeviceType device : {v1::DEVICE_TYPE_CPU, v1::DEVICE_TYPE_CUDA}) {
    const auto checked = CallsOfRows(device, "aten::index.Tensor", false);
    EXPECT_EQ(std::count(checked.begin(), checked.end(), "wrapped_index"), 1) << device;
    EXPECT_THAT(checked, Not(Contains("minimum"))) << device;
  }
}

TEST(CheckedIndex, BoundsAreLeftWhereNobodyChecks) {
  for (const v1::DeviceType device : {v1::DEVICE_TYPE_CPU, v1::DEVICE_TYPE_CUDA}) {
    for (const auto& calls : {CallsOfRows(device, "aten::index.Tensor", true),
                              CallsOfRows(device, "aten::_unsafe_index.Tensor", false)}) {
      EXPECT_THAT(calls, Not(Contains("wrapped_index"))) << device;
      EXPECT_THAT(calls, Contains("minimum")) << device;
    }
  }
}

}  // namespace checked_index_test
}  // namespace tensord::testing
