// SPDX-License-Identifier: Apache-2.0
// The prelude on disk, with its precompiled header.
#ifndef TENSORD_COMPILER_JIT_CXX_PRELUDE_H_
#define TENSORD_COMPILER_JIT_CXX_PRELUDE_H_

#include <string>

#include "base/status.h"
#include "compiler/jit/cxx/toolchain.h"

namespace tensord::jit {

// The include folder for `toolchain` below `work_folder`, made when it is not there or not as it
// was sealed (seal.h): it appears whole or not at all, so processes may race. Quick where it is
// sound; call it before every use. Internal: it cannot be written, or the prelude fails to compile.
absl::StatusOr<std::string> PreparePrelude(const CxxToolchain& toolchain,
                                           const std::string& work_folder,
                                           const std::string& seal_key);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CXX_PRELUDE_H_
