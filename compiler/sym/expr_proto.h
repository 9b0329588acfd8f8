// SPDX-License-Identifier: Apache-2.0
// Symbolic integers on the wire.
#ifndef TENSORD_COMPILER_SYM_EXPR_PROTO_H_
#define TENSORD_COMPILER_SYM_EXPR_PROTO_H_

#include "compiler/sym/expr.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::sym {

// Requires: no loop or indirect symbols.
void ToProto(const Expr& e, v1::SymExpr* proto);

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_EXPR_PROTO_H_
