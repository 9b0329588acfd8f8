// Runs a program and collects what it prints. No shell, and the child dies with its parent.
#ifndef TENSORD_COMPILER_JIT_CXX_PROCESS_H_
#define TENSORD_COMPILER_JIT_CXX_PROCESS_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace tensord::jit {

struct ProcessResult {
  int exit_code = 0;   // 128 + the signal's number when a signal ended it
  std::string output;  // stdout and stderr together
};

// Runs `command` (its first word is a path) in `folder`, which is also its TMPDIR, with the C
// locale and nothing on its standard input; waits for it. Errors: NotFound when there is no such
// program, Internal when it cannot be started. Thread-safe.
absl::StatusOr<ProcessResult> RunProcess(const std::vector<std::string>& command,
                                         const std::string& folder);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CXX_PROCESS_H_
