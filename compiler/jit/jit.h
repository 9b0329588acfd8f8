// SPDX-License-Identifier: Apache-2.0
// Turns kernel sources into binaries: the host's C++ compiler for CPU targets, NVRTC for CUDA.
#ifndef TENSORD_COMPILER_JIT_JIT_H_
#define TENSORD_COMPILER_JIT_JIT_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::jit {

struct JitConfig {
  std::string cxx = "c++";               // the host's C++ compiler: a name or a path
  std::vector<std::string> extra_flags;  // appended to the C++ compiler's
  std::string nvrtc;                     // NVRTC's library or folder; empty: looked for
  std::string work_folder;               // for preludes, precompiled headers and temporary files
  int parallelism = 1;                   // units compiled at once
};

// Compiles every unit. A unit whose source does not compile is in the result's failures, the others
// are made all the same. FailedPrecondition: the compiler is missing or too old, with what to
// install or set.
absl::StatusOr<v1::JitResult> Jit(const v1::JitJob& job, const JitConfig& config);

struct ToolchainInfo {
  // What decides the binary besides source and target: compiler version and options, prelude
  // digest. Part of every kernel key and of the program key.
  std::string id;
  // The compiler's file: when it changes, so may the id.
  std::string file;
};

// Errors as above; Unimplemented, InvalidArgument: the target.
absl::StatusOr<ToolchainInfo> FindToolchain(const v1::Target& target, const JitConfig& config);

// Every compiler that this build can use, found or not, for people.
v1::ToolchainList ListToolchains(const JitConfig& config);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_JIT_H_
