// SPDX-License-Identifier: Apache-2.0
// Which rows of values that a later pass reads lie on a task's stack.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_STACK_ROWS_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_STACK_ROWS_H_

#include <set>

#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Local buffers of the nest of known size, while they find room; the first stored come first.
std::set<BufferId> FindStackRows(const Program& program, const Nest& nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_STACK_ROWS_H_
