// SPDX-License-Identifier: Apache-2.0
// The form in which CUDA schedules and emitters take a nest.
#ifndef TENSORD_COMPILER_SCHEDULE_CUDA_PREPARE_NEST_H_
#define TENSORD_COMPILER_SCHEDULE_CUDA_PREPARE_NEST_H_

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Ensures: column statements are apart (Nest::after); in a flat nest reductions over all elements
// are over all units; a pointwise one that does better by rows has them.
Nest PrepareCudaNest(const Program& program, Nest nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CUDA_PREPARE_NEST_H_
