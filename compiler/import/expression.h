// SPDX-License-Identifier: Apache-2.0
// Symbolic integers from the wire, with bounds on what a sender can make us compute.
#ifndef TENSORD_COMPILER_IMPORT_EXPRESSION_H_
#define TENSORD_COMPILER_IMPORT_EXPRESSION_H_

#include <vector>

#include "base/status.h"
#include "compiler/sym/expr.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::compiler {

// The expression over `symbols` (by index). InvalidArgument when it is malformed, too deep, too
// large once multiplied out, overflows 63 bits at the symbols' hints, or may divide by zero.
absl::StatusOr<sym::Expr> ImportExpr(const v1::SymExpr& from,
                                     const std::vector<sym::Expr>& symbols);

// InvalidArgument for a definition that is malformed, too deep or too large, has a constant that is
// no finite number, or names none of `symbols`.
absl::Status CheckDefinition(const v1::Definition& definition,
                             const std::vector<sym::Expr>& symbols);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_IMPORT_EXPRESSION_H_
