// SPDX-License-Identifier: Apache-2.0
// Changes of a loop nest's variables.
#ifndef TENSORD_COMPILER_LOOP_IR_REWRITE_H_
#define TENSORD_COMPILER_LOOP_IR_REWRITE_H_

#include <functional>
#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// Every integer expression of an operation: indices of loads, stores and reductions, index values.
void ForEachExpr(LoopOp* op, const std::function<void(Expr*)>& visit);
void ForEachExpr(const LoopOp& op, const std::function<void(const Expr&)>& visit);

// Replaces loop d by `loops[d]`, for all loops at once.
void SubstituteLoops(LoopOp* op, const std::vector<Expr>& loops);

// Can loops `outer` and `inner` = outer + 1 (of these extents) run as one loop over their product?
// True when no expression tells the difference.
bool CanMergeLoops(const std::vector<Expr>& exprs, int outer, const Expr& outer_extent,
                   const Expr& inner_extent);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_LOOP_IR_REWRITE_H_
