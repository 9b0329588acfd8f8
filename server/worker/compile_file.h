// SPDX-License-Identifier: Apache-2.0
// `tensord-worker --compile FILE`: what the compiler makes of one graph, pass by pass, as text.
#ifndef TENSORD_SERVER_WORKER_COMPILE_FILE_H_
#define TENSORD_SERVER_WORKER_COMPILE_FILE_H_

#include <string>

#include "base/status.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::server {

struct CompileFileOptions {
  std::string file;                // of ParseJob
  std::string dump_after = "all";  // a pass of compiler/pipeline.h, or "all"
  // See ParseTarget. "": as the file says, and where that says none AVX2, or for a graph that is on
  // a GPU sm_90.
  std::string target;
};

// "scalar", "avx2" or "avx512", or a CUDA architecture as "sm_90". InvalidArgument for others.
absl::StatusOr<v1::Target> ParseTarget(const std::string& name);

// Prints each dump as soon as it is made. Returns the exit code: 0, 1 where the graph does not
// compile, 2 where the file, the pass or the target is wrong; the reason goes to stderr. A compiler
// that throws or dies ends the process with 1 and INTERNAL on stderr: it leaves signal handlers.
int CompileFile(const CompileFileOptions& options);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_COMPILE_FILE_H_
