// SPDX-License-Identifier: Apache-2.0
// `tensord-worker --action IN OUT`: one compile from a file to files, with no daemon and no store,
// as a build farm runs it (docs/remote-execution.md).
//
//   IN                     a CompileJob
//   OUT/program            an ActionProgram
//   OUT/blobs/<sha256>     binaries of its kernels
//
// Equal inputs and toolchains give equal files, and what a daemon publishes of the job has the same
// artifact and the same binaries.
#ifndef TENSORD_SERVER_WORKER_ACTION_H_
#define TENSORD_SERVER_WORKER_ACTION_H_

#include <string>

#include "compiler/jit/jit.h"

namespace tensord::server {

struct ActionOptions {
  std::string in;
  std::string out;  // a folder, which is made, and must be empty where it is there
};

// A work folder that `jit` does not name is a temporary one. Returns the exit code: 0, 1 where the
// graph or its kernels do not compile, 2 where IN or OUT is wrong; the reason goes to stderr, and
// OUT has nothing then.
int RunAction(const ActionOptions& options, jit::JitConfig jit);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_ACTION_H_
