// SPDX-License-Identifier: Apache-2.0
// Prefixes along rows: a group runs through a row from front to back. Of few long rows each is cut
// into parts, for blocks that do so side by side.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_ROWS_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_ROWS_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

absl::Status CanScheduleScanRows(const NestContext& context);
CudaPlan ScheduleScanRows(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_SCAN_ROWS_H_
