// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/ops.h"

namespace tensord::compiler {

const OpInfo& InfoOf(Op op) {
  static constexpr OpInfo kInfos[] = {
#define TENSORD_OP(name, arity, types, result, cost, ...) {#name, arity, OpResult::result, cost},
#define TENSORD_SPECIAL_OP(name, arity, cost, ...) {#name, arity, OpResult::Same, cost, true},
#include "compiler/loop_ir/ops.def"
  };
  return kInfos[static_cast<int>(op)];
}

}  // namespace tensord::compiler
