// SPDX-License-Identifier: Apache-2.0
// Blocks go over rows, or over elements, and keep what they reduce over them.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_SWEEP_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_SWEEP_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleSweep(const NestContext& context);

// Requires: CanScheduleSweep.
CudaPlan ScheduleSweep(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_SWEEP_H_
