// SPDX-License-Identifier: Apache-2.0
// The schedule of one CUDA nest: the first kind that can take it, with its parameters.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_NEST_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_NEST_H_

#include <span>

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

struct CudaScheduleKind {
  const char* name;
  absl::Status (*can_schedule)(const NestContext&);  // says why not
  CudaPlan (*schedule)(const NestContext&);
};

// In the order in which they are tried: each comes before those that could take its nests too.
std::span<const CudaScheduleKind> CudaScheduleKinds();

// Requires: a nest in the form that PrepareCudaNest gives it.
// Ensures: VerifyCudaPlan (verify_plan.h).
CudaPlan PlanCudaNest(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_PLAN_NEST_H_
