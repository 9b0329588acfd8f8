// SPDX-License-Identifier: Apache-2.0
// A captured graph from outside becomes a Graph.
//
// Ensures: every value reference points back to a result that exists; every symbol is the size of
// some input; metas are complete, of rank 64 at most, and their storage is addressable; constants
// are dense and at most 64 KiB; expressions are small, do not overflow at their hints and never
// divide by zero; names hold only characters that are safe in generated text. References to integer
// inputs have become the integer's expression, and references to absent results have become "none".
// Whether its nodes fit their operators is VerifyGraph's to say (graph/verify.h), behind which
// later stages may trust the graph.
#ifndef TENSORD_COMPILER_IMPORT_IMPORT_H_
#define TENSORD_COMPILER_IMPORT_IMPORT_H_

#include "base/status.h"
#include "compiler/graph/graph.h"

namespace tensord::compiler {

inline constexpr int kMaxConstantBytes = 64 << 10;
inline constexpr int kMaxRank = 64;
inline constexpr int kMaxListDepth = 8;
inline constexpr int kMaxNodes = 200'000;
inline constexpr int kMaxSymbols = 4096;
inline constexpr int kMaxExprDepth = 32;
inline constexpr int kMaxExprNodes = 512;  // of one expression, as sent
inline constexpr int kMaxExprTerms = 256;  // of one polynomial, multiplied out

// InvalidArgument, with a message that begins with Describe(node), "symbol N", "input N", "constant
// N" or "output N".
absl::StatusOr<Graph> Import(const v1::Graph& graph);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_IMPORT_IMPORT_H_
