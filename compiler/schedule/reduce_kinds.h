// SPDX-License-Identifier: Apache-2.0
// What schedules ask of the kinds of reductions.
#ifndef TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_
#define TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Its result is the place of an element.
constexpr bool IsArg(ReduceKind kind) {
  return kind == ReduceKind::kArgMin || kind == ReduceKind::kArgMax;
}

// Its accumulator is more than one number, and each step takes several instructions.
constexpr bool HasState(ReduceKind kind) {
  return IsArg(kind) || kind == ReduceKind::kWelford || kind == ReduceKind::kOnlineSoftmax;
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_
