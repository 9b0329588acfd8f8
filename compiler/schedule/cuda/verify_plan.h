// SPDX-License-Identifier: Apache-2.0
// The verifier of the plan of one CUDA nest.
//
// Checks that
//   - groups fill the block, and tiles of columns have registers and go over rows;
//   - what is loaded first or prefetched has registers, and sweeps peel no rows;
//   - whole vectors are of those in registers, and only loops have vectors in flight;
//   - joint sums are sums of floats along the row, of one pass, in groups of whole warps, two up to
//     kMostJointSums together, each once;
//   - the groups of a block combine the sums of all columns that are in registers, in as much
//     shared memory as that takes;
//   - sums of columns have a second launch with whole shares of the columns, and totals alone none.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_VERIFY_PLAN_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_VERIFY_PLAN_H_

#include "base/status.h"
#include "compiler/schedule/cuda/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// `nest`: in the form that PrepareCudaNest gives it. Internal.
absl::Status VerifyCudaPlan(const Nest& nest, const CudaPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_VERIFY_PLAN_H_
