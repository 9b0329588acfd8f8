// SPDX-License-Identifier: Apache-2.0
// How the threads of a group run through their row: what follows, whichever kind of schedule it is,
// from the vectors of the row and from what is reduced.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_ROW_INSIDE_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_ROW_INSIDE_H_

#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/nest_reductions.h"

namespace tensord::compiler {

// Floats that a warp's slot has room for (kernels/cuda/group.cuh).
inline constexpr size_t kMostJointSums = 6;

// Whether a block has several groups of whole warps, each with a barrier of its own: joint sums
// save barriers.
bool HasGroupsOfWarps(const CudaPlan& plan);
// A sum along the row, of floats.
bool MayBeJoint(const NestReduction& reduction);

// Sets the last part of `group`, which belongs to `plan` and whose other fields are set.
void PlanRowInside(const Nest& nest, const CudaPlan& plan, RowGroup* group);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_ROW_INSIDE_H_
