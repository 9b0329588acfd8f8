// SPDX-License-Identifier: Apache-2.0
// Turns kernel sources into binaries: the host's C++ compiler for CPU targets, NVRTC for CUDA.
#ifndef TENSORD_COMPILER_JIT_JIT_H_
#define TENSORD_COMPILER_JIT_JIT_H_

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "compiler/jit/config.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::jit {

// Compiles every unit. A unit whose source does not compile is in the result's failures, the others
// are made all the same; one whose compiler met the machine's trouble (no room, no descriptors) is
// no such unit, but the end of all, after another attempt in the spare folder. FailedPrecondition:
// the compiler is missing or too old, with what to install or set. `on_unit` is called with the
// number of units that are done, after each and from one thread at a time.
using OnUnit = std::function<void(uint32_t done)>;
absl::StatusOr<v1::JitResult> Jit(const v1::JitJob& job, const JitConfig& config,
                                  const OnUnit& on_unit = nullptr);

// Where a job's files are made now: the work folder, or the spare one while that has no room.
std::string WorkFolder(const JitConfig& config);

// Errors as above; Unimplemented, InvalidArgument: the target.
absl::StatusOr<ToolchainInfo> FindToolchain(const v1::Target& target, const JitConfig& config);

// Every compiler that this build can use, found or not, for people.
v1::ToolchainList ListToolchains(const JitConfig& config);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_JIT_H_
