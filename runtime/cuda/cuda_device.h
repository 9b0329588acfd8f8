// SPDX-License-Identifier: Apache-2.0
// CUDA programs: kernels of CUDA modules, launched on torch's current stream.
#ifndef TENSORD_RUNTIME_CUDA_CUDA_DEVICE_H_
#define TENSORD_RUNTIME_CUDA_CUDA_DEVICE_H_

#include <memory>

#include "runtime/program/device.h"

namespace tensord::runtime {

std::unique_ptr<Device> NewCudaDevice();

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUDA_DEVICE_H_
