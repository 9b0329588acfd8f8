// SPDX-License-Identifier: Apache-2.0
// Where NVRTC may lie.
#ifndef TENSORD_COMPILER_JIT_NVRTC_FIND_H_
#define TENSORD_COMPILER_JIT_NVRTC_FIND_H_

#include <string>
#include <vector>

namespace tensord::jit {

// Libraries to try, in order, as dlopen takes them. With `configured` (a library or a folder) that
// one alone; else those of CUDA_HOME and CUDA_PATH, of toolkits in /usr/local, newest first, and
// what the system's loader finds.
std::vector<std::string> NvrtcCandidates(const std::string& configured);

// Of the folder that holds `library`, the builtins library of that version; or empty.
std::string NvrtcBuiltins(const std::string& library, int major, int minor);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_FIND_H_
