// SPDX-License-Identifier: Apache-2.0
// A group of threads, part of a warp up to a whole block, computes a row: for nests with reductions
// along rows or statements about them, and for pointwise ones that do better by rows. It is the
// schedule of last resort: any nest that reduces nothing over its rows can have it.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ROWS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ROWS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleRows(const NestContext& context);

// Requires: CanScheduleRows.
CudaPlan ScheduleRows(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ROWS_H_
