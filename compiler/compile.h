// SPDX-License-Identifier: Apache-2.0
// The compiler's face: a captured graph in, a launch plan and kernel sources out.
//
// Pure: no sockets, no files, no globals, no threads. jit/jit.h turns the sources into binaries.
#ifndef TENSORD_COMPILER_COMPILE_H_
#define TENSORD_COMPILER_COMPILE_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::compiler {

// Compiles `job.graph` for `job.target`. InvalidArgument names what is wrong with the graph ("node
// 'NAME' (aten::op): ..."); Internal is a failure of the compiler, with the pass where it failed
// ("lower: node 'NAME' (aten::op): ..."). The result's modules are numbered as its units; their
// digests are for the caller to fill in once the units are binaries.
absl::StatusOr<v1::CompileResult> Compile(const v1::CompileJob& job);

// Compiles, and calls `print` with what the pass `after` has made: one of pipeline.h's, or "all"
// for every pass in order; a pass that changed nothing says so. Each is printed as soon as it has
// run, so that they are there whatever becomes of later ones. NotFound lists the passes where there
// is none of that name; otherwise errors are those of Compile.
absl::Status CompileAndDump(const v1::CompileJob& job, const std::string& after,
                            const std::function<void(const std::string& text)>& print);

// Operators that the compiler lowers itself, sorted: "aten::softmax.int", "aten::add.Tensor".
const std::vector<std::string>& LoweredOperators();

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_COMPILE_H_
