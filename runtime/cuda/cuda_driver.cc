// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tensord::runtime {
namespace {

constexpr int kOldestDriver = 12000;  // cuLibraryLoadData

struct DriverSymbol {
  size_t offset;  // in CudaDriver
  const char* name;
  bool required = true;
};

#define TENSORD_DRIVER_SYMBOL(member, ...) {offsetof(CudaDriver, member), __VA_ARGS__}
constexpr DriverSymbol kDriverSymbols[] = {
    TENSORD_DRIVER_SYMBOL(init, "cuInit"),
    TENSORD_DRIVER_SYMBOL(get_version, "cuDriverGetVersion"),
    TENSORD_DRIVER_SYMBOL(get_error_name, "cuGetErrorName"),
    TENSORD_DRIVER_SYMBOL(get_error_string, "cuGetErrorString"),
    TENSORD_DRIVER_SYMBOL(get_context, "cuCtxGetCurrent"),
    TENSORD_DRIVER_SYMBOL(get_device, "cuCtxGetDevice"),
    TENSORD_DRIVER_SYMBOL(device_of_index, "cuDeviceGet"),
    TENSORD_DRIVER_SYMBOL(retain_primary_context, "cuDevicePrimaryCtxRetain"),
    TENSORD_DRIVER_SYMBOL(set_context, "cuCtxSetCurrent"),
    TENSORD_DRIVER_SYMBOL(load_library, "cuLibraryLoadData"),
    TENSORD_DRIVER_SYMBOL(get_kernel, "cuLibraryGetKernel"),
    TENSORD_DRIVER_SYMBOL(get_function, "cuKernelGetFunction"),
    TENSORD_DRIVER_SYMBOL(get_parameter, "cuKernelGetParamInfo", false),  // 12.4
    TENSORD_DRIVER_SYMBOL(get_attribute, "cuFuncGetAttribute"),
    TENSORD_DRIVER_SYMBOL(set_attribute, "cuFuncSetAttribute"),
    TENSORD_DRIVER_SYMBOL(launch, "cuLaunchKernelEx"),
    TENSORD_DRIVER_SYMBOL(fill_bytes, "cuMemsetD8Async"),
    TENSORD_DRIVER_SYMBOL(query_stream, "cuStreamQuery"),
    TENSORD_DRIVER_SYMBOL(is_capturing, "cuStreamIsCapturing", false),
    TENSORD_DRIVER_SYMBOL(create_event, "cuEventCreate", false),
    TENSORD_DRIVER_SYMBOL(destroy_event, "cuEventDestroy_v2", false),
    TENSORD_DRIVER_SYMBOL(record_event, "cuEventRecord", false),
    TENSORD_DRIVER_SYMBOL(synchronize_event, "cuEventSynchronize", false),
    TENSORD_DRIVER_SYMBOL(elapsed_time, "cuEventElapsedTime", false),
};
#undef TENSORD_DRIVER_SYMBOL

constexpr const char* kForkAdvice =
    "CUDA cannot be used in a process forked after CUDA started: start it with the 'spawn' method";
constexpr const char* kDriverAdvice =
    "the NVIDIA driver is older than the CUDA toolkit that made the kernels: update the driver, or "
    "have the daemon use an older toolkit";
constexpr const char* kOtherGpuAdvice =
    "the kernels were made for another GPU than the one of the inputs; compile again on this one";

struct Meaning {
  CuResult result;
  TensordError code;
  const char* advice;  // or ""
};
constexpr Meaning kMeanings[] = {
    {2, TENSORD_OUT_OF_MEMORY, ""},
    {3, TENSORD_OPERATOR, kForkAdvice},  // CUDA_ERROR_NOT_INITIALIZED
    {4, TENSORD_OPERATOR, ""},           // DEINITIALIZED: the process ends
    {34, TENSORD_UNAVAILABLE, "the stub of libcuda.so was loaded; install the NVIDIA driver"},
    {46, TENSORD_UNAVAILABLE, "another process holds the GPU"},  // DEVICE_UNAVAILABLE
    {100, TENSORD_UNAVAILABLE, "no GPU is visible to this process"},
    {200, TENSORD_CORRUPT, ""},                 // INVALID_IMAGE
    {209, TENSORD_CORRUPT, kOtherGpuAdvice},    // NO_BINARY_FOR_GPU
    {218, TENSORD_CORRUPT, ""},                 // INVALID_PTX
    {221, TENSORD_UNAVAILABLE, kDriverAdvice},  // JIT_COMPILER_NOT_FOUND
    {222, TENSORD_UNAVAILABLE, kDriverAdvice},  // UNSUPPORTED_PTX_VERSION
    {300, TENSORD_CORRUPT, ""},                 // INVALID_SOURCE
    {500, TENSORD_CORRUPT, ""},                 // NOT_FOUND: a kernel
    {803, TENSORD_UNAVAILABLE, "the driver's library and the kernel's module differ in version"},
    {804, TENSORD_UNAVAILABLE, kDriverAdvice},  // COMPAT_NOT_SUPPORTED_ON_DEVICE
};

// Set in a forked child of a process that used the driver. Whatever state the driver has there, and
// whoever held its locks at the fork, it is not called again.
std::atomic<bool> forked{false};

TensordError Open(CudaDriver* driver) {
  const char* override_path = std::getenv("TENSORD_CUDA_DRIVER");
  const char* path = override_path != nullptr ? override_path : "libcuda.so.1";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // never closed
  if (library == nullptr) {
    const char* why = dlerror();
    return Fail(TENSORD_UNAVAILABLE,
                std::string("the CUDA driver cannot be opened: ") + (why != nullptr ? why : path) +
                    "; install the NVIDIA driver, or give the container access to the GPU");
  }
  *driver = {};
  auto* base = reinterpret_cast<char*>(driver);
  for (const DriverSymbol& symbol : kDriverSymbols) {
    void* address = dlsym(library, symbol.name);
    std::memcpy(base + symbol.offset, &address, sizeof address);
    if (address == nullptr && symbol.required) {
      return Fail(TENSORD_UNAVAILABLE, std::string("the CUDA driver has no function ") +
                                           symbol.name + ": tensord needs driver 12.0 or later");
    }
  }
  if (const CuResult result = driver->init(0); result != kCudaSuccess) {
    return CudaFailed(*driver, result, "the CUDA driver cannot be initialised");
  }
  int version = 0;
  if (driver->get_version(&version) != kCudaSuccess || version < kOldestDriver) {
    return Fail(TENSORD_UNAVAILABLE,
                "the CUDA driver is version " + std::to_string(version / 1000) + "." +
                    std::to_string(version % 1000 / 10) + ": tensord needs 12.0 or later");
  }
  return TENSORD_OK;
}

}  // namespace

TensordError GetCudaDriver(const CudaDriver** driver) {
  static std::atomic<const CudaDriver*> loaded{nullptr};
  if (forked.load(std::memory_order_relaxed)) [[unlikely]] {
    return Fail(TENSORD_OPERATOR, kForkAdvice);
  }
  if (const CudaDriver* known = loaded.load(std::memory_order_acquire)) [[likely]] {
    *driver = known;
    return TENSORD_OK;
  }
  // Two threads may both load: they find the same, and the loser's few bytes go.
  auto fresh = std::make_unique<CudaDriver>();
  TENSORD_TRY(Open(fresh.get()));
  const CudaDriver* expected = nullptr;
  if (loaded.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel)) {
    expected = fresh.release();
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  }
  *driver = expected;
  return TENSORD_OK;
}

CuResult CurrentDevice(const CudaDriver& driver, CuDevice* device) {
  CuContext context = nullptr;
  const CuResult result = driver.get_context(&context);
  if (result != kCudaSuccess) return result;
  return context == nullptr ? kCudaInvalidContext : driver.get_device(device);
}

TensordError CudaFailed(const CudaDriver& driver, CuResult result, const std::string& what) {
  const char *name = nullptr, *text = nullptr;
  driver.get_error_name(result, &name);
  driver.get_error_string(result, &text);
  Meaning meaning = {result, TENSORD_OPERATOR, ""};
  for (const Meaning& row : kMeanings) {
    if (row.result == result) meaning = row;
  }
  std::string message =
      what + ": " + (name != nullptr ? name : "CUDA error " + std::to_string(result));
  if (text != nullptr) message += std::string(" (") + text + ")";
  if (*meaning.advice != '\0') message += std::string("; ") + meaning.advice;
  return Fail(meaning.code, std::move(message));
}

}  // namespace tensord::runtime
