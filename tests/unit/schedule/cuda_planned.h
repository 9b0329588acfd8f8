// SPDX-License-Identifier: Apache-2.0
// Graphs whose kernels are planned for a GPU.
#ifndef TENSORD_TESTS_UNIT_SCHEDULE_CUDA_PLANNED_H_
#define TENSORD_TESTS_UNIT_SCHEDULE_CUDA_PLANNED_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "compiler/pipeline.h"
#include "compiler/schedule/cuda/plan_nest.h"
#include "tests/unit/testing/graph_builder.h"

namespace tensord::testing {

inline constexpr v1::DType kF32 = v1::DTYPE_FLOAT32, kBF16 = v1::DTYPE_BFLOAT16;
inline constexpr v1::DeviceType kCuda = v1::DEVICE_TYPE_CUDA;

// A graph that is compiled for a GPU of so many multiprocessors.
class Planned {
 public:
  explicit Planned(GraphBuilder graph, int multiprocessors = 2) {
    *job_.mutable_graph() = graph.graph();
    v1::CudaTarget* target = job_.mutable_target()->mutable_cuda();
    target->set_sm(90);
    target->set_multiprocessors(multiprocessors);
    target->set_shared_bytes_per_block(232448);
    target->set_l2_bytes(50 << 20);
    target->set_registers_per_multiprocessor(65536);
    state_.job = &job_;
    const absl::Status status = compiler::RunPipeline(state_);
    EXPECT_TRUE(status.ok()) << status;
  }

  const compiler::CudaKernelPlan& kernel(size_t step = 0) const {
    return std::get<compiler::CudaKernelPlan>(state_.kernel_plans.at(step));
  }
  const compiler::CudaPlan& plan(size_t nest = 0) const { return kernel().nests.at(nest).plan; }
  template <class Kind>
  const Kind& As() const {
    return std::get<Kind>(plan().kind);
  }

  // Why a kind is not for the first nest; "" where it is.
  std::string WhyNot(const std::string& name) const {
    const compiler::NestContext context(state_.program, kernel().nests[0].nest,
                                        job_.target().cuda(), /*fixed_threads=*/0);
    for (const compiler::CudaScheduleKind& kind : compiler::CudaScheduleKinds()) {
      if (name == kind.name) return std::string(kind.can_schedule(context).message());
    }
    return "there is no such kind";
  }

 private:
  v1::CompileJob job_;
  compiler::CompileState state_;
};

inline GraphBuilder Sum(const Shape& sizes, int dim, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Shape left{sizes[1 - dim]};
  const Ref x = g.Input(sizes, dtype);
  return g.Output(
      g.Node("aten::sum.dim_IntList", {x, Ints({dim}), false, nullptr}, g.Meta(left, dtype)));
}
inline GraphBuilder Softmax(const Shape& sizes, v1::DType dtype = kF32) {
  GraphBuilder g(kCuda);
  const Ref x = g.Input(sizes, dtype);
  return g.Output(g.Node("aten::_softmax", {x, 1, false}, g.Meta(sizes, dtype)));
}
}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_SCHEDULE_CUDA_PLANNED_H_
