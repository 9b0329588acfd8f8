// SPDX-License-Identifier: Apache-2.0
// CPU targets: the host's C++ compiler makes a shared object of each unit.
#ifndef TENSORD_COMPILER_JIT_CXX_BACKEND_H_
#define TENSORD_COMPILER_JIT_CXX_BACKEND_H_

#include "compiler/jit/backend.h"

namespace tensord::jit {

extern const BackendEntry kCxxBackend;

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_CXX_BACKEND_H_
