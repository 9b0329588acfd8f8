// SPDX-License-Identifier: Apache-2.0
// Few long rows: several blocks share each, so that no multiprocessor is idle.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_SPLIT_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_SPLIT_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleSplit(const NestContext& context);

// Requires: CanScheduleSplit.
CudaPlan ScheduleSplit(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_SPLIT_H_
