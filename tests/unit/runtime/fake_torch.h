// SPDX-License-Identifier: Apache-2.0
// torch's C shim for tests of the runtime without torch: version 2.11 with CUDA, on plain host
// memory. The test's executable exports the symbols (ENABLE_EXPORTS), where the runtime looks them
// up.
#ifndef TENSORD_TESTS_UNIT_RUNTIME_FAKE_TORCH_H_
#define TENSORD_TESTS_UNIT_RUNTIME_FAKE_TORCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tensord/runtime.h"

namespace tensord::testing {

inline constexpr int32_t kInt64 = 4, kFloat32 = 6, kBfloat16 = 15, kCpu = 0, kCuda = 1;

struct FakeTorch {
  int live_tensors = 0;
  int allocations = 0;
  int copies = 0;
  int fail_allocation = 0;  // the n-th from now on fails, counted from 1
  int guards = 0, live_guards = 0;
  std::function<void(int device)> set_device;  // the guard's way to the driver
  std::function<int()> get_device;
  std::vector<std::string> products;  // direct calls of matrix products

  void Reset() { *this = FakeTorch{.live_tensors = live_tensors}; }
};
FakeTorch& Fake();

// The stream that is current on a device.
void* StreamOf(int device);

// A new dense tensor. `misalign`: bytes from a 64-byte boundary to its first element.
TensordTensor NewFake(std::vector<int64_t> sizes, int32_t device, int32_t index = 0,
                      std::vector<float> values = {}, int64_t misalign = 0,
                      int32_t dtype = kFloat32);
// A tensor of its own memory with the other's sizes, strides and elements.
TensordTensor CloneFake(TensordTensor tensor);
float* Data(TensordTensor tensor);
int32_t DeviceOf(TensordTensor tensor);
int32_t IndexOf(TensordTensor tensor);
void Delete(TensordTensor tensor);

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_RUNTIME_FAKE_TORCH_H_
