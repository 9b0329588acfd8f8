// SPDX-License-Identifier: Apache-2.0
// Reads what `--ptxas-options=-v` prints.
#ifndef TENSORD_COMPILER_JIT_NVRTC_PTXAS_LOG_H_
#define TENSORD_COMPILER_JIT_NVRTC_PTXAS_LOG_H_

#include <string>

#include "tensord/v1/worker.pb.h"

namespace tensord::jit {

// Of several kernels, the most registers and shared memory and the sum of spills. Zeros where the
// log does not tell.
v1::UnitResources ParsePtxasLog(const std::string& log);

}  // namespace tensord::jit

#endif  // TENSORD_COMPILER_JIT_NVRTC_PTXAS_LOG_H_
