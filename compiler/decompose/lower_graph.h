// Second stage: a graph of operators becomes a program of loops and library calls.
//
// Requires: a graph from Import.
// Ensures: VerifyProgram holds; every output has exactly the sizes and strides that the graph
// declares; writes to inputs happen in the graph's order, and whatever read the old value was
// computed before; no operation is without effect; buffers that leave the call are marked
// `returned`. Must follow: Import. The schedule reads the program.
#ifndef TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_
#define TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_

#include "base/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

// The device for which code is generated: CUDA as soon as one tensor is there; CPU tensors beside
// it are numbers or belong to library calls.
v1::DeviceType DeviceOf(const Graph& graph);

// InvalidArgument, with a message that names the node, for an unknown operator, for arguments that
// do not fit, and for a result whose shape or type does not follow from its arguments.
// deterministic: as in Builder.
absl::StatusOr<Program> LowerGraph(const Graph& graph, bool deterministic = false);

// Drops operations whose results nobody reads. Buffers keep their numbers. Library calls without
// any result, or that `keep` names by their operator, stay.
void DropDeadOperations(Program& program, bool (*keep)(const ExternOp& op));

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_DECOMPOSE_LOWER_GRAPH_H_
