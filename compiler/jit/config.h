// SPDX-License-Identifier: Apache-2.0
// What a JIT is told, and what it says of a compiler that it found.
#ifndef TENSORD_COMPILER_JIT_CONFIG_H_
#define TENSORD_COMPILER_JIT_CONFIG_H_

#include <string>
#include <vector>

namespace tensord::jit {

struct JitConfig {
  std::string cxx = "c++";               // the host's C++ compiler: a name or a path
  std::vector<std::string> extra_flags;  // appended to the C++ compiler's
  std::string nvrtc;                     // NVRTC's library or folder; empty: looked for
  std::string work_folder;               // for preludes, precompiled headers and temporary files
  std::string spare_folder;              // instead of it while its disk fails; empty: none
  std::string seal_key;  // of what the work folder keeps for other processes (seal.h)
  int parallelism = 1;   // units compiled at once
};

struct ToolchainInfo {
  // What decides the binary besides source and target: compiler version and options, prelude
  // digest. Part of every kernel key and of the program key.
  std::string id;
  // The compiler's file: when it changes, so may the id.
  std::string file;
};

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CONFIG_H_
