// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/ops.h"

namespace tensord::compiler {

const OpInfo& InfoOf(Op op) {
  static constexpr OpInfo kInfos[] = {
#define TENSORD_OP(name, arity, types, result, cost, ...)  \
  { #name, arity, OpTypes::types, OpResult::result, cost } \
  ,
#define TENSORD_SPECIAL_OP(name, arity, cost, ...) \
  {#name, arity, OpTypes::Float, OpResult::Same, cost, true},
#include "compiler/loop_ir/ops.def"
  };
  return kInfos[static_cast<int>(op)];
}

bool Takes(Op op, DType dtype) {
  switch (InfoOf(op).types) {
    case OpTypes::Float:
      return IsFloating(dtype);
    case OpTypes::Integer:
      return IsInteger(dtype);
    case OpTypes::Number:
      return IsFloating(dtype) || IsInteger(dtype);
    case OpTypes::Bits:
      return IsInteger(dtype) || dtype == kBool;
    case OpTypes::Any:
      return true;
    case OpTypes::Counter:
      return dtype == kInt64;
  }
  return false;
}

}  // namespace tensord::compiler
