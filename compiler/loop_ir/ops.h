// SPDX-License-Identifier: Apache-2.0
// The scalar operations of the loop IR (ops.def) as an enumeration with their properties.
#ifndef TENSORD_COMPILER_LOOP_IR_OPS_H_
#define TENSORD_COMPILER_LOOP_IR_OPS_H_

#include <cstdint>

#include "compiler/graph/dtype.h"

namespace tensord::compiler {

enum class Op : uint8_t {
#define TENSORD_OP(name, ...) k_##name,
#include "compiler/loop_ir/ops.def"
};

// The types of an operation's operands, which are of one type (ops.def).
enum class OpTypes : uint8_t { Float, Integer, Number, Bits, Any, Counter };

enum class OpResult : uint8_t { Same, Bool, Second, Float32 };

struct OpInfo {
  const char* name;
  int arity;
  OpTypes types;
  OpResult result;
  int cost;
  bool is_special = false;  // in a header of its own
};

const OpInfo& InfoOf(Op op);

// Whether the operation takes operands of that type.
bool Takes(Op op, DType dtype);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_OPS_H_
