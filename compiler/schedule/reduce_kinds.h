// SPDX-License-Identifier: Apache-2.0
// What schedules ask of the kinds of reductions.
#ifndef TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_
#define TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_

#include <optional>

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

// The operation that joins two terms; nothing for what is more than one number.
inline std::optional<Op> CombineOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return Op::k_add;
    case ReduceKind::kProd:
      return Op::k_mul;
    case ReduceKind::kMin:
      return Op::k_minimum;
    case ReduceKind::kMax:
      return Op::k_maximum;
    case ReduceKind::kAny:
      return Op::k_logical_or;
    case ReduceKind::kAll:
      return Op::k_logical_and;
    default:
      return std::nullopt;
  }
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_REDUCE_KINDS_H_
