// SPDX-License-Identifier: Apache-2.0
// Programs for a GPU that compute on the CPU as well: the golden cases of all operators, there.
// What they give is a result itself, and is brought to the GPU, where a kernel reads it.
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/golden_cases.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace two_devices_test {

v1::Graph WithAGpu(const v1::Graph& on_the_cpu) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  g.graph() = on_the_cpu;
  const auto node = static_cast<uint32_t>(g.graph().inputs_size() + g.graph().constants_size());
  const v1::Node computed = g.graph().nodes(0);
  for (uint32_t i = 0; i < static_cast<uint32_t>(computed.outputs_size()); ++i) {
    const v1::TensorMeta& meta = computed.outputs(static_cast<int>(i));
    if (meta.dtype() == v1::DTYPE_UNSPECIFIED) continue;
    Shape sizes;
    for (const v1::SymExpr& size : meta.sizes()) sizes.push_back(Dim(size));
    const Ref moved = g.Node("aten::_to_copy",
                             {Ref{node, i}, nullptr, nullptr, v1::DEVICE_TYPE_CUDA, nullptr, false,
                              v1::MEMORY_FORMAT_CONTIGUOUS},
                             g.Meta(sizes, meta.dtype()));
    g.Output(g.Node("aten::eq.Tensor", {moved, moved}, g.Meta(sizes, v1::DTYPE_BOOL)));
  }
  return g.graph();
}

class TwoDevices : public ::testing::TestWithParam<const GoldenCase*> {};

TEST_P(TwoDevices, ShareNoMemory) {
  v1::CompileJob job;
  *job.mutable_graph() = WithAGpu(GetParam()->graph);
  SCOPED_TRACE(job.graph().nodes(0).ShortDebugString());
  job.mutable_target()->mutable_cuda()->set_sm(90);
  compiler::CompileState state{.job = &job};
  const absl::Status status = compiler::RunPipeline(state);
  ASSERT_TRUE(status.ok()) << status;
  const v1::Artifact& plan = state.result.artifact();
  // On the CPU there are inputs, constants, what the library gives, and views of these.
  for (const v1::Buffer& buffer : plan.buffers()) {
    if (buffer.meta().device() != v1::DEVICE_TYPE_CPU) continue;
    EXPECT_FALSE(buffer.has_workspace() || buffer.has_owned()) << buffer.ShortDebugString();
  }
  for (const v1::Step& step : plan.steps()) {
    for (const uint32_t taken : step.launch().buffers()) {
      EXPECT_EQ(plan.buffers(static_cast<int>(taken)).meta().device(), v1::DEVICE_TYPE_CUDA)
          << step.ShortDebugString();
    }
  }
}

std::vector<const GoldenCase*> OfTheCpu() {
  std::vector<const GoldenCase*> cases = GoldenParameters();
  std::erase_if(cases,
                [](const GoldenCase* golden) { return golden->device() != v1::DEVICE_TYPE_CPU; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Case, TwoDevices, ::testing::ValuesIn(OfTheCpu()),
                         [](const auto& info) { return info.param->name; });

}  // namespace two_devices_test
}  // namespace tensord::testing
