// SPDX-License-Identifier: Apache-2.0
// Brings each loop nest into the order of memory and merges loops.
//
// Requires: a verified program.
// Ensures: the independent loops of every LoopOp run in the order of its store's strides (for a
//   reduction: of its widest load), reduced loops likewise; loops of extent 1 are gone, and so are
//   operations over nothing; adjacent loops that no expression distinguishes are one. Meaning and
//   results are unchanged.
#ifndef TENSORD_COMPILER_SCHEDULE_NORMALIZE_LOOPS_H_
#define TENSORD_COMPILER_SCHEDULE_NORMALIZE_LOOPS_H_

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

void NormalizeLoops(Program* program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_NORMALIZE_LOOPS_H_
