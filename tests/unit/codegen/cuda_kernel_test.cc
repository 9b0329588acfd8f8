// SPDX-License-Identifier: Apache-2.0
// What a CUDA launch is beside its nests: whether it waits for the launches before it by itself.
#include <gtest/gtest.h>

#include "compiler/pipeline.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {
namespace cuda_kernel_test {

using compiler::KernelSource;

// Of y = 2 x over so many floats.
KernelSource KernelOf(int elements, int sm) {
  GraphBuilder g(v1::DEVICE_TYPE_CUDA);
  const Ref x = g.Input({elements});
  g.Output(g.Node("aten::mul.Scalar", {x, 2.0}, g.Meta({elements})));
  v1::CompileJob job;
  *job.mutable_graph() = g.graph();
  job.mutable_target()->mutable_cuda()->set_sm(sm);
  compiler::CompileState state;
  state.job = &job;
  const absl::Status status = compiler::RunPipeline(state);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(state.kernels.size(), 1u);
  return state.kernels[0];
}

void ExpectWaits(const KernelSource& kernel, bool waits) {
  EXPECT_EQ(kernel.ir.cuda[0].waits, waits);
  EXPECT_EQ(kernel.functions[0].cuda->waits_itself, waits);
}

TEST(CudaKernel, SmallOnesBeginBeforeTheOneBeforeHasEnded) {
  ExpectWaits(KernelOf(2 << 20, 90), true);
  ExpectWaits(KernelOf(2 << 20, 80), false);
}

TEST(CudaKernel, LargeOnesKeepTheirLoadsFree) { ExpectWaits(KernelOf(4 << 20, 90), false); }

}  // namespace cuda_kernel_test
}  // namespace tensord::testing
