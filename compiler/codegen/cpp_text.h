// C++ spellings of types and numbers in generated kernels.
#ifndef TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_
#define TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_

#include <string>

#include "compiler/graph/dtype.h"
#include "compiler/loop_ir/program.h"
#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {

// The element type in memory: "float", "tk::bfloat16", "bool".
std::string StorageType(DType dtype);
// The type it is computed in: "float", "int64_t", "bool".
std::string ComputeTypeText(DType dtype);
// A literal of the compute type.
std::string Literal(DType dtype, double number, int64_t integer);
// The neutral element of a plain reduction, as a literal.
std::string Identity(ReduceKind kind, DType dtype);
// The function that combines two accumulators of a plain reduction, and the one that reduces lanes.
const char* CombineFunction(ReduceKind kind);
const char* ReduceFunction(ReduceKind kind);

// A reduction with a state of its own in the prelude: the prefix of its functions and the fields
// that are its results.
struct StateText {
  const char* name;
  const char* parts[2];
};
// Null for plain reductions.
const StateText* StateOf(ReduceKind kind);
// The function that combines two accumulators of any reduction.
std::string CombineText(ReduceKind kind);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPP_TEXT_H_
