// SPDX-License-Identifier: Apache-2.0
// How what a sweep accumulates becomes one: the groups of a block combine their sums of columns,
// then a second launch, or the last block, combines the copies of all blocks.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_COMBINE_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_COMBINE_H_

#include <optional>
#include <vector>

#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/nest_reductions.h"

namespace tensord::compiler {

// Some member sums columns.
bool HasColumnAccumulators(const Nest& nest);

// For a nest with sums of columns: their copies would keep the last block longer than a launch
// takes. Totals alone the last block combines: none.
std::optional<FinishLaunch> FinishOf(const Nest& nest);

// Bytes of shared memory through which the groups of a block combine one vector of each thread:
// what half of them hand over.
int64_t BytesOfCombinedVector(const CudaPlan& plan, const NestReduction& reduction);
// The same where they combine one vector of each reduction, one reduction after the other.
int64_t BytesOfCombinedVectors(const CudaPlan& plan, const std::vector<NestReduction>& reductions);

// Sets how the groups of a block combine their sums of columns. `sweep` is the kind of `plan`.
void PlanCombining(const Nest& nest, const CudaPlan& plan, CudaSweep* sweep);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_COMBINE_H_
