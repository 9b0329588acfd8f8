// SPDX-License-Identifier: Apache-2.0
// A thread owns a vector of columns, or a part of them that is scanned: for reductions with an
// innermost independent loop and few rows, and for scans across rows.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_COLUMNS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_COLUMNS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleColumns(const NestContext& context);

// Requires: CanScheduleColumns.
CudaPlan ScheduleColumns(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_COLUMNS_H_
