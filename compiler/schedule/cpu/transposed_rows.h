// SPDX-License-Identifier: Apache-2.0
// Rows in blocks, for pointwise nests with operands that lie across the vector loop: read one by
// one they would come from as many lines of the cache as a vector has lanes.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_TRANSPOSED_ROWS_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_TRANSPOSED_ROWS_H_

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest, of vectors with so many lanes.
absl::Status CanScheduleTransposedRows(const Nest& nest, int lanes);

// A load that steps by one along the last outer loop and further along the vector loop.
bool IsTransposedLoad(const Nest& nest, const Inst& inst);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_TRANSPOSED_ROWS_H_
