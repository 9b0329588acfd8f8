// The compiler's face: a captured graph in, a launch plan and kernel sources out.
//
// Pure: no sockets, no files, no globals, no threads. jit/jit.h turns the sources into binaries.
#ifndef TENSORD_COMPILER_COMPILE_H_
#define TENSORD_COMPILER_COMPILE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::compiler {

// Compiles `job.graph` for `job.target`. InvalidArgument names the node at fault
// ("node 'NAME' (aten::op): ..."). The result's modules are numbered as its units; their digests
// are for the caller to fill in once the units are binaries.
absl::StatusOr<v1::CompileResult> Compile(const v1::CompileJob& job);

// Checks a graph from outside: known operators, arity, argument types, references that point back,
// shapes that follow. The daemon calls it before a job reaches a worker.
absl::Status Verify(const v1::Graph& graph);

// Operators that the compiler lowers itself, sorted: "aten::softmax.int", "aten::add.Tensor".
const std::vector<std::string>& LoweredOperators();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_COMPILE_H_
