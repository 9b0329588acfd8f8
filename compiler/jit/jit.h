// Turns kernel sources into binaries: the host's C++ compiler for CPU targets (NVRTC for CUDA
// follows).
#ifndef TENSORD_COMPILER_JIT_JIT_H_
#define TENSORD_COMPILER_JIT_JIT_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::jit {

struct JitConfig {
  std::string cxx = "c++";               // the host's C++ compiler: a name or a path
  std::vector<std::string> extra_flags;  // appended to ours
  std::string work_folder;               // for preludes, precompiled headers and temporary files
  int parallelism = 1;                   // units compiled at once
};

// Compiles every unit. FailedPrecondition: the compiler is missing, with what to install or set;
// Internal: it failed on a unit, with its command line and the end of its output.
absl::StatusOr<v1::JitResult> Jit(const v1::JitJob& job, const JitConfig& config);

// What decides the binary besides source and target: compiler version and flags, prelude digest.
// Part of every kernel key and of the program key.
absl::StatusOr<std::string> ToolchainId(const v1::Target& target, const JitConfig& config);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_JIT_H_
