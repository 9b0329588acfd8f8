// SPDX-License-Identifier: Apache-2.0
// CUDA targets: NVRTC makes a cubin of each unit, without files and without a GPU.
#ifndef TENSORD_COMPILER_JIT_NVRTC_BACKEND_H_
#define TENSORD_COMPILER_JIT_NVRTC_BACKEND_H_

#include "compiler/jit/backend.h"

namespace tensord::jit {

extern const BackendEntry kNvrtcBackend;

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_BACKEND_H_
