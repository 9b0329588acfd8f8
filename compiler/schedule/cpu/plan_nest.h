// SPDX-License-Identifier: Apache-2.0
// The schedule of one CPU nest: the first kind that can take it, with its parameters.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_PLAN_NEST_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_PLAN_NEST_H_

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Requires: a nest in the form that PrepareCpuNest gives it. `lanes`: of a vector, a power of two.
// Ensures: VerifyCpuPlan (verify_plan.h).
CpuPlan PlanCpuNest(const Program& program, const Nest& nest, int lanes);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_PLAN_NEST_H_
