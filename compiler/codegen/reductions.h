// SPDX-License-Identifier: Apache-2.0
// What the prelude has for each kind of reduction.
#ifndef TENSORD_COMPILER_CODEGEN_REDUCTIONS_H_
#define TENSORD_COMPILER_CODEGEN_REDUCTIONS_H_

#include <string>

#include "compiler/kernel_ir/value.h"
#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {

// The neutral element of a plain reduction, a scalar.
ir::Value IdentityOf(ReduceKind kind, DType dtype);

// The neutral element of an operation that may be scanned, a scalar.
ir::Value ScanIdentityOf(Op op, DType dtype);

// A reduction with a state of its own: the prefix of its functions and the fields that are its
// results.
struct StateFunctions {
  const char* name;
  const char* fields[2];
};
// Null for plain reductions.
const StateFunctions* StateOf(ReduceKind kind);

// The function that combines two accumulators.
std::string CombineFunction(ReduceKind kind);
// The function that reduces the lanes of an accumulator: to a scalar, or to a state of one lane.
std::string ReduceFunction(ReduceKind kind);
// CUDA: the function that combines the threads of a group.
std::string GroupFunction(ReduceKind kind);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_REDUCTIONS_H_
