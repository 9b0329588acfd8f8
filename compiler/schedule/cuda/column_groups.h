// SPDX-License-Identifier: Apache-2.0
// Threads of a block share vectors of columns: for reductions with an innermost independent loop
// and so few columns that a thread for each would leave most of the machine idle.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_GROUPS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_GROUPS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleColumnGroups(const NestContext& context);

// Requires: CanScheduleColumnGroups.
CudaPlan ScheduleColumnGroups(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_COLUMN_GROUPS_H_
