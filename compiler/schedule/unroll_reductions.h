// SPDX-License-Identifier: Apache-2.0
// Turns reductions over a handful of elements into pointwise expressions.
//
// A short reduced loop with independent loops inside it (the sum over the heads that share a key,
// say) would run through an array of accumulators; written out it is a few loads and additions, and
// fuses like any pointwise operation. Reductions of rows stay: they share a nest with what uses
// them.
//
// Requires: a verified program. Ensures: the same results. NormalizeLoops must follow.
#ifndef TENSORD_COMPILER_SCHEDULE_UNROLL_REDUCTIONS_H_
#define TENSORD_COMPILER_SCHEDULE_UNROLL_REDUCTIONS_H_

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

void UnrollReductions(Program* program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_UNROLL_REDUCTIONS_H_
