// SPDX-License-Identifier: Apache-2.0
// Chunks of one space of elements.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_FLAT_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_FLAT_H_

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// OK, or why this schedule is not for the nest.
absl::Status CanScheduleFlat(const Nest& nest);

// Requires: CanScheduleFlat.
CpuFlat ScheduleFlat();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_FLAT_H_
