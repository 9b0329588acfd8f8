// SPDX-License-Identifier: Apache-2.0
// In which order an operation's loops go through memory.
#ifndef TENSORD_COMPILER_SCHEDULE_LOOP_ORDER_H_
#define TENSORD_COMPILER_SCHEDULE_LOOP_ORDER_H_

#include <cstdint>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Loops are numbered as in LoopOp: the independent ones, then the reduced ones.
Expr ExtentOf(const LoopOp& op, int loop);
int LoopCount(const LoopOp& op);

// By loop: how far apart in memory, in elements at the sizes' hints, its steps are in the first
// store or, for a reduction, in the load that covers most of the iteration space. INT64_MAX: it
// does not occur there, so it goes outside. Empty where nothing is stored or loaded.
std::vector<int64_t> LeadingStrides(const LoopOp& op);

// The loops by these strides, outermost first; as they are where there are none.
std::vector<int> LoadOrder(const LoopOp& op);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_LOOP_ORDER_H_
