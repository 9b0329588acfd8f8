// SPDX-License-Identifier: Apache-2.0
// Runs the host's C++ compiler, and what belongs to it, in an environment that changes nothing.
#ifndef TENSORD_COMPILER_JIT_CXX_HOST_PROGRAM_H_
#define TENSORD_COMPILER_JIT_CXX_HOST_PROGRAM_H_

#include <string>
#include <vector>

#include "base/process.h"

namespace tensord::jit {

// Runs `command` (its first word is a path) in `folder`, which is also its TMPDIR, with the C
// locale and without the variables that lead a compiler elsewhere; waits for it. Errors:
// RunProcess's.
absl::StatusOr<ProcessResult> RunHostProgram(const std::vector<std::string>& command,
                                             const std::string& folder);

// What the machine lacked when a compiler failed, in the C library's words: room, descriptors,
// processes, a disk that works. Says nothing of what was compiled. Empty: none of these, as of a
// compiler whose own limit of memory (`job_memory`) was too low for the source.
std::string MachinesTrouble(const ProcessResult& result);

// Whether the compiler, or a program that it ran, was killed, as by a kernel without memory.
bool WasKilled(const ProcessResult& result);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CXX_HOST_PROGRAM_H_
