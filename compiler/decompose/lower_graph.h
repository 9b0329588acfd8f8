// SPDX-License-Identifier: Apache-2.0
// A graph of operators becomes a program of loops and library calls.
//
// Requires: a graph from Import.
// Ensures: VerifyProgram holds; every output has exactly the sizes and strides that the graph
// declares; writes to inputs happen in the graph's order, and whatever read the old value was
// computed before; no operation is without effect; buffers that leave the call are marked
// `returned`. Must follow: Import. The schedule reads the program.
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_

#include <string_view>

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop_ir/builder.h"

namespace tensord::compiler {

// InvalidArgument, with a message that names the node, for what an operator cannot compute: sizes
// or types that do not fit each other, and a result that is declared otherwise than it follows.
absl::StatusOr<Program> LowerGraph(const Graph& graph, LoweringOptions options = {});

// Whether jobs have the operator, and can call it: what rewrites put in is none of theirs.
bool IsInJobs(std::string_view op);

// Drops operations whose results nobody reads, or that have no elements to compute. Buffers keep
// their numbers. Library calls that are `ordered` stay.
void DropDeadOperations(Program& program);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_
