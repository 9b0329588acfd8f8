// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_libcuda.h"

#include <cstring>
#include <sstream>

#include "runtime/cuda/cuda_driver.h"

namespace {

struct Kernel {
  std::string name;
  size_t words;
};
struct Library {
  std::map<std::string, Kernel*> kernels;
};

thread_local int current_device = 0;

// Counts the call; its result, if it is to fail.
int Enter(const char* function) {
  FakeCuda& fake = *fake_cuda();
  const std::lock_guard lock(fake.mutex);
  ++fake.calls;
  const auto failure = fake.failures.find(function);
  return failure != fake.failures.end() ? failure->second : 0;
}

constexpr int kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500;

}  // namespace

#define ENTER() \
  if (const int result = Enter(__func__); result != 0) return result

extern "C" {

FakeCuda* fake_cuda() {
  static auto* fake = new FakeCuda;
  return fake;
}

void fake_cuda_set_device(int device) { current_device = device; }
int fake_cuda_get_device() { return current_device; }

int cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> kNames = {
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},       {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {500, "CUDA_ERROR_NOT_FOUND"},         {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
  };
  const auto found = kNames.find(result);
  *name = found != kNames.end() ? found->second : nullptr;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "what the driver says";
  return 0;
}

int cuInit(unsigned) {
  ENTER();
  return 0;
}
int cuDriverGetVersion(int* version) {
  ENTER();
  *version = fake_cuda()->version;
  return 0;
}

// A context is its device's number, plus one.
int cuCtxGetCurrent(void** context) {
  ENTER();
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(current_device) + 1);
  return 0;
}
int cuCtxGetDevice(int* device) {
  ENTER();
  if (current_device < 0) {
    ++fake_cuda()->asked_without_context;
    return kInvalidContext;
  }
  *device = current_device;
  return 0;
}
int cuDeviceGet(int* device, int index) {
  ENTER();
  *device = index;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER();
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(device) + 1);
  return 0;
}
int cuCtxSetCurrent(void* context) {
  ENTER();
  current_device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  ++fake_cuda()->contexts_set;
  return 0;
}

int cuLibraryLoadData(void** library, const void* image, void*, void**, unsigned, void*, void**,
                      unsigned) {
  ENTER();
  const std::string text = static_cast<const char*>(image);
  auto* made = new Library;
  std::istringstream lines(text);
  Kernel kernel;
  while (lines >> kernel.name >> kernel.words) made->kernels[kernel.name] = new Kernel(kernel);
  fake_cuda()->loads.push_back(text);
  *library = made;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  ENTER();
  const auto& kernels = static_cast<Library*>(library)->kernels;
  const auto found = kernels.find(name);
  if (found == kernels.end()) return kNotFound;
  *kernel = found->second;
  return 0;
}
int cuKernelGetFunction(void** function, void* kernel) {
  ENTER();
  *function = kernel;
  return 0;
}
int cuKernelGetParamInfo(void* kernel, size_t index, size_t* offset, size_t* size) {
  ENTER();
  if (index != 0) return 1;
  *offset = 0;
  *size = static_cast<Kernel*>(kernel)->words * 8;
  return 0;
}
int cuFuncGetAttribute(int* value, int, void* function) {
  ENTER();
  const auto& limits = fake_cuda()->shared_limits;
  const auto found = limits.find(static_cast<Kernel*>(function)->name);
  *value = found != limits.end() ? found->second : 48 << 10;
  return 0;
}
int cuFuncSetAttribute(void* function, int, int value) {
  ENTER();
  fake_cuda()->shared_limits[static_cast<Kernel*>(function)->name] = value;
  return 0;
}

int cuLaunchKernelEx(const tensord::runtime::CuLaunchConfig* config, void* function,
                     void** parameters, void**) {
  ENTER();
  const auto* kernel = static_cast<Kernel*>(function);
  FakeLaunch launch = {.kernel = kernel->name,
                       .grid = config->grid[0],
                       .block = config->block[0],
                       .shared_bytes = config->shared_bytes,
                       .device = current_device,
                       .stream = config->stream};
  if (config->num_attributes == 1) {
    launch.programmatic =
        config->attributes[0].id == tensord::runtime::kProgrammaticLaunchAttribute &&
        config->attributes[0].value[0] == 1;
  }
  launch.words.resize(kernel->words);
  std::memcpy(launch.words.data(), parameters[0], kernel->words * 8);
  FakeCuda& fake = *fake_cuda();
  const auto body = fake.bodies.find(kernel->name);
  if (body != fake.bodies.end()) body->second(launch.words.data());
  fake.launches.push_back(std::move(launch));
  ++fake.microseconds;
  return 0;
}
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void*) {
  ENTER();
  fake_cuda()->fills.emplace_back(address, bytes);
  std::memset(reinterpret_cast<void*>(address), value, bytes);
  return 0;
}
int cuStreamQuery(void*) {
  ENTER();
  return 0;
}
int cuStreamIsCapturing(void*, int* status) {
  ENTER();
  *status = fake_cuda()->capturing ? 1 : 0;
  return 0;
}

// An event is the time at which it was recorded.
int cuEventCreate(void** event, unsigned) {
  ENTER();
  *event = new int64_t{-1};
  ++fake_cuda()->live_events;
  ++fake_cuda()->events_made;
  return 0;
}
int cuEventDestroy_v2(void* event) {
  ENTER();
  delete static_cast<int64_t*>(event);
  --fake_cuda()->live_events;
  return 0;
}
int cuEventRecord(void* event, void*) {
  ENTER();
  *static_cast<int64_t*>(event) = ++fake_cuda()->microseconds;
  return 0;
}
int cuEventSynchronize(void* event) {
  ENTER();
  return *static_cast<int64_t*>(event) < 0 ? kInvalidHandle : 0;
}
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  ENTER();
  const int64_t from = *static_cast<int64_t*>(begin), to = *static_cast<int64_t*>(end);
  if (from < 0 || to < 0) return kInvalidHandle;
  *milliseconds = static_cast<float>(to - from) / 1000;
  return 0;
}

}  // extern "C"
