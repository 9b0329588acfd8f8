// SPDX-License-Identifier: Apache-2.0
// Where NVRTC may lie.
#ifndef TENSORD_COMPILER_JIT_NVRTC_FIND_H_
#define TENSORD_COMPILER_JIT_NVRTC_FIND_H_

#include <string>
#include <vector>

namespace tensord::jit {

// Candidate libraries for dlopen, in order. If `configured` names a library or folder: only that.
// Otherwise CUDA_HOME and CUDA_PATH, then toolkits in /usr/local (newest first), then the system's
// loader.
std::vector<std::string> NvrtcCandidates(const std::string& configured);

// The NVRTC builtins library of this version in `library`'s folder, or "".
std::string NvrtcBuiltins(const std::string& library, int major, int minor);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_FIND_H_
