// SPDX-License-Identifier: Apache-2.0
// The verifier of the plan of one CPU nest.
//
// Checks that
//   - vectors have lanes, chunks and blocks of columns are whole vectors, and there is some work;
//   - without a tail whole vectors are all of the vector loop, and one element at a time leaves
//   none;
//   - only passes have copies of accumulators, several;
//   - rows on the stack are local to the nest, of known size.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_VERIFY_PLAN_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_VERIFY_PLAN_H_

#include "base/status.h"
#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// `nest`: in the form that PrepareCpuNest gives it. Internal.
absl::Status VerifyCpuPlan(const Nest& nest, const CpuPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_VERIFY_PLAN_H_
