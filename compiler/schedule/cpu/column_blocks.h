// SPDX-License-Identifier: Apache-2.0
// Columns in blocks that run in parallel: for reductions with an innermost independent loop, and
// for scatters whose columns stay apart.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_COLUMN_BLOCKS_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_COLUMN_BLOCKS_H_

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleColumnBlocks(const Nest& nest);

// Requires: CanScheduleColumnBlocks.
CpuColumnBlocks ScheduleColumnBlocks();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_COLUMN_BLOCKS_H_
