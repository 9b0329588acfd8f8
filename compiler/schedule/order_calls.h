// SPDX-License-Identifier: Apache-2.0
// Library calls that may as well run later run behind those that free memory.
//
// Requires: a schedule.
// Ensures: each step runs behind those that it depends on; of two neighbouring calls, neither of
//   which needs the other, the one goes first with which less is in memory at their fuller step.
//   So each call is compared with those before it, until one is better where it is, or a step is
//   no such call; eight at most. Collectives, and waits for them, stay where they are.
// Backward of a linear layer multiplies its gradient twice: by the weight, which makes another
// image, and by the layer's input, which is saved and goes then. Where that is the backward call's
// first layer, nothing else of what forward saved has gone yet.
#ifndef TENSORD_COMPILER_SCHEDULE_ORDER_CALLS_H_
#define TENSORD_COMPILER_SCHEDULE_ORDER_CALLS_H_

#include <vector>

#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

// `released`: by input, whether its memory goes when the call needs it no more.
void OrderCalls(const Program& program, const std::vector<bool>& released, Schedule* schedule);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ORDER_CALLS_H_
