// SPDX-License-Identifier: Apache-2.0
// A loop over the two parts of complex numbers becomes its two iterations.
#ifndef TENSORD_COMPILER_SCHEDULE_UNROLL_PARTS_H_
#define TENSORD_COMPILER_SCHEDULE_UNROLL_PARTS_H_

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Complex numbers that are seen as real ones (Builder::ViewAsReal) choose a part by a loop of two
// iterations. What they are computed from is mostly the same for both parts, and vectors along two
// elements are none, so both are computed side by side: two stores of neighbours, two terms of a
// sum, or two reductions. Loops stay where prefixes run along both parts, and where a part would
// leave out a check of a divisor or an index. Must follow split_loops, which makes a loop of the
// choice.
void UnrollParts(Program* program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_UNROLL_PARTS_H_
