// SPDX-License-Identifier: Apache-2.0
// The host's C++ compiler: where it is, what it is, and how it is called.
#ifndef TENSORD_COMPILER_JIT_CXX_TOOLCHAIN_H_
#define TENSORD_COMPILER_JIT_CXX_TOOLCHAIN_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/jit/config.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::jit {

struct CxxToolchain {
  std::string path;                // of the compiler
  std::string version;             // the first line of its --version
  std::vector<std::string> flags;  // for the target, the caller's extra flags included
  std::string id;                  // of ToolchainInfo
};

// `target` is a CPU. FailedPrecondition: no compiler, or one that cannot compile the prelude, with
// what to do; InvalidArgument: a CPU without an instruction set.
absl::StatusOr<CxxToolchain> FindCxxToolchain(const v1::Target& target, const JitConfig& config);

// What follows the flags to make `output` of `source`, both names in the current folder.
std::vector<std::string> LinkArguments(const std::string& source, const std::string& output);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CXX_TOOLCHAIN_H_
