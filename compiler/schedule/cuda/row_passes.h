// SPDX-License-Identifier: Apache-2.0
// Who runs through rows in passes, and where their values are from one pass to the next.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ROW_PASSES_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ROW_PASSES_H_

#include <utility>

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/cuda/row_vectors.h"

namespace tensord::compiler {

// The threads of a block and of a row, which has about so many vectors: a part of a warp, or the
// whole block.
std::pair<int, int> ChooseRowThreads(const NestContext& context, int64_t vectors);

struct RowPasses {
  int threads = 1;     // of a block
  RowGroup group;      // its last part is not set
  bool loops = false;  // as of CudaRows
  Expr blocks;
};

// Of rows of these vectors, in each of which all that a pass reads is loaded again or kept.
RowPasses PlanRowPasses(const NestContext& context, const RowVectors& vectors);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ROW_PASSES_H_
