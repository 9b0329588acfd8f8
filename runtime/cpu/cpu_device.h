// SPDX-License-Identifier: Apache-2.0
// CPU programs: kernels are functions of shared objects, called on torch's thread pool.
#ifndef TENSORD_RUNTIME_CPU_CPU_DEVICE_H_
#define TENSORD_RUNTIME_CPU_CPU_DEVICE_H_

#include <memory>

#include "runtime/program/device.h"

namespace tensord::runtime {

std::unique_ptr<Device> NewCpuDevice();

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CPU_CPU_DEVICE_H_
