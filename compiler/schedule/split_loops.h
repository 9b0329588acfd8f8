// SPDX-License-Identifier: Apache-2.0
// Splits loops where an index divides them.
//
// A reshape that does not merge leaves i / c and i % c of a loop i in its indices. Split into i / c
// and i % c, loop i becomes two, the divisions vanish, and loads that were gathers are plain again.
// A comparison of a loop with a constant (as concatenations and paddings leave) splits it at the
// constant, so that the comparison is the same for all of a vector.
//
// Requires: a verified program.
// Ensures: the same results; fewer divisions. NormalizeLoops must follow.
#ifndef TENSORD_COMPILER_SCHEDULE_SPLIT_LOOPS_H_
#define TENSORD_COMPILER_SCHEDULE_SPLIT_LOOPS_H_

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

void SplitLoops(Program* program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_SPLIT_LOOPS_H_
