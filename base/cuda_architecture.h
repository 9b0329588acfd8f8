// SPDX-License-Identifier: Apache-2.0
// What GPUs of an architecture can do: 10 * major + minor of their compute capability.
#ifndef TENSORD_BASE_CUDA_ARCHITECTURE_H_
#define TENSORD_BASE_CUDA_ARCHITECTURE_H_

#include <cstdint>

namespace tensord {

// Whether four warps together multiply matrices in the background (kernels/cuda/warpgroup.cuh).
// Architectures after it have not: code with such instructions is for this one alone.
constexpr bool HasWarpgroups(uint32_t architecture) { return architecture == 90; }

// Whether a kernel may begin before those ahead of it have ended, and wait for them.
constexpr bool CanWaitForLaunches(uint32_t architecture) { return architecture >= 90; }

}  // namespace tensord

#endif  // TENSORD_BASE_CUDA_ARCHITECTURE_H_
