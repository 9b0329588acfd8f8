// SPDX-License-Identifier: Apache-2.0
// A thread computes a vector of every result: for pointwise nests whose rows do not matter.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ELEMENTS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ELEMENTS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleElements(const NestContext& context);

// Requires: CanScheduleElements.
CudaPlan ScheduleElements(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ELEMENTS_H_
