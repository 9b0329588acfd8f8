// SPDX-License-Identifier: Apache-2.0
// The form in which CPU schedules and emitters take a nest.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_PREPARE_NEST_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_PREPARE_NEST_H_

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Ensures: a flat nest has one loop at most, for one whose loops could not be merged is a tiled one
// over its last loop; in either case what reduces all elements reduces over units.
Nest PrepareCpuNest(Nest nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_PREPARE_NEST_H_
