// SPDX-License-Identifier: Apache-2.0
// Operands of a pointwise nest that lie across its vector loop, read through shared memory.
//
// In `x + y.t()` vectors run along the rows of x, that is along the columns of y: neighbouring
// threads would read y far apart, a few bytes of each line of the cache. Instead a block takes a
// tile, some of the vector loop times some of the loop along which y is contiguous; it reads the
// tile of y along y's own rows into shared memory (kernels/cuda/tile.cuh), and vectors from there.
// Operands that find no room there are not in the plan.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_TILES_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_TILES_H_

#include "compiler/schedule/cuda/nest_context.h"
#include "compiler/schedule/cuda/plan.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleTiles(const NestContext& context);

// Requires: CanScheduleTiles.
CudaPlan ScheduleTiles(const NestContext& context);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_TILES_H_
