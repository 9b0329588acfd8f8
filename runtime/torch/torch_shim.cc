// SPDX-License-Identifier: Apache-2.0
#include "runtime/torch/torch_shim.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/base/loaded_library.h"

namespace tensord::runtime {
namespace {

constexpr uint64_t Version(uint64_t major, uint64_t minor) { return major << 56 | minor << 48; }
constexpr uint64_t kOldest = Version(2, 11);
constexpr uint64_t kOptional = UINT64_MAX;

constexpr const char* kCpuLibrary = "libtorch_cpu.so";
constexpr const char* kCudaLibrary = "libtorch_cuda.so";

struct ShimSymbol {
  size_t offset;  // in Torch
  const char* name;
  uint64_t since;  // required from this version on; optional before
  const char* library = kCpuLibrary;
};

#define TENSORD_SHIM_SYMBOL(member, ...) {offsetof(Torch, member), __VA_ARGS__}
constexpr ShimSymbol kShimSymbols[] = {
    TENSORD_SHIM_SYMBOL(abi_version, "aoti_torch_abi_version", kOldest),
    TENSORD_SHIM_SYMBOL(get_data_ptr, "aoti_torch_get_data_ptr", kOldest),
    TENSORD_SHIM_SYMBOL(get_dim, "aoti_torch_get_dim", kOldest),
    TENSORD_SHIM_SYMBOL(get_sizes, "aoti_torch_get_sizes", kOldest),
    TENSORD_SHIM_SYMBOL(get_strides, "aoti_torch_get_strides", kOldest),
    TENSORD_SHIM_SYMBOL(get_dtype, "aoti_torch_get_dtype", kOldest),
    TENSORD_SHIM_SYMBOL(get_device_type, "aoti_torch_get_device_type", kOldest),
    TENSORD_SHIM_SYMBOL(get_device_index, "aoti_torch_get_device_index", kOldest),
    TENSORD_SHIM_SYMBOL(get_storage_offset, "aoti_torch_get_storage_offset", kOldest),
    TENSORD_SHIM_SYMBOL(get_storage_size, "aoti_torch_get_storage_size", kOldest),
    TENSORD_SHIM_SYMBOL(is_defined, "aoti_torch_is_defined", kOldest),
    TENSORD_SHIM_SYMBOL(delete_tensor, "aoti_torch_delete_tensor_object", kOldest),
    TENSORD_SHIM_SYMBOL(new_tensor_handle, "aoti_torch_new_tensor_handle", kOldest),
    TENSORD_SHIM_SYMBOL(empty_strided, "aoti_torch_empty_strided", kOldest),
    TENSORD_SHIM_SYMBOL(reinterpret_tensor, "aoti_torch__reinterpret_tensor", kOldest),
    TENSORD_SHIM_SYMBOL(alloc_from_pool, "aoti_torch__alloc_from_pool", kOldest),
    TENSORD_SHIM_SYMBOL(copy, "aoti_torch_copy_", kOldest),
    TENSORD_SHIM_SYMBOL(clone_preserve_strides, "aoti_torch_clone_preserve_strides", kOldest),
    TENSORD_SHIM_SYMBOL(grad_mode_is_enabled, "aoti_torch_grad_mode_is_enabled", kOldest),
    TENSORD_SHIM_SYMBOL(grad_mode_set_enabled, "aoti_torch_grad_mode_set_enabled", kOldest),
    TENSORD_SHIM_SYMBOL(parallel_for, "torch_parallel_for", kOldest),
    TENSORD_SHIM_SYMBOL(get_num_threads, "torch_get_num_threads", kOldest),
    TENSORD_SHIM_SYMBOL(call_dispatcher, "torch_call_dispatcher", kOldest),
    TENSORD_SHIM_SYMBOL(new_list, "torch_new_list_reserve_size", kOldest),
    TENSORD_SHIM_SYMBOL(list_push_back, "torch_list_push_back", kOldest),
    TENSORD_SHIM_SYMBOL(delete_list, "torch_delete_list", kOldest),
    TENSORD_SHIM_SYMBOL(new_string, "torch_new_string_handle", kOldest),
    TENSORD_SHIM_SYMBOL(cpu_mm_out, "aoti_torch_cpu_mm_out", kOldest),
    TENSORD_SHIM_SYMBOL(cpu_bmm_out, "aoti_torch_cpu_bmm_out", kOldest),
    TENSORD_SHIM_SYMBOL(cpu_addmm_out, "aoti_torch_cpu_addmm_out", kOldest),
    TENSORD_SHIM_SYMBOL(cpu_baddbmm_out, "aoti_torch_cpu_baddbmm_out", kOldest),
    TENSORD_SHIM_SYMBOL(get_current_cuda_stream, "aoti_torch_get_current_cuda_stream", kOptional,
                        kCudaLibrary),
    TENSORD_SHIM_SYMBOL(create_cuda_guard, "aoti_torch_create_cuda_guard", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(delete_cuda_guard, "aoti_torch_delete_cuda_guard", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cuda_mm_out, "aoti_torch_cuda_mm_out", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cuda_bmm_out, "aoti_torch_cuda_bmm_out", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cuda_addmm_out, "aoti_torch_cuda_addmm_out", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cuda_baddbmm_out, "aoti_torch_cuda_baddbmm_out", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cpu_convolution, "aoti_torch_cpu_convolution", kOptional),
    TENSORD_SHIM_SYMBOL(cuda_convolution, "aoti_torch_cuda_convolution", kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(cpu_convolution_backward, "aoti_torch_cpu_convolution_backward", kOptional),
    TENSORD_SHIM_SYMBOL(cuda_convolution_backward, "aoti_torch_cuda_convolution_backward",
                        kOptional, kCudaLibrary),
    TENSORD_SHIM_SYMBOL(has_callbacks, "_ZN2at12hasCallbacksEv", kOptional),
    TENSORD_SHIM_SYMBOL(record_start, "aoti_record_function_start", kOptional),
    TENSORD_SHIM_SYMBOL(record_end, "aoti_record_function_end", kOptional),
    TENSORD_SHIM_SYMBOL(exception_what, "torch_exception_get_what_without_backtrace",
                        Version(2, 13)),
    TENSORD_SHIM_SYMBOL(new_stable_ivalue, "torch_new_stable_ivalue", Version(2, 13)),
};
#undef TENSORD_SHIM_SYMBOL

TensordError Load(Torch* torch) {
  void* const cpu = FindLoadedLibrary(kCpuLibrary);
  void* const cuda = FindLoadedLibrary(kCudaLibrary);
  if (dlsym(cpu, "aoti_torch_abi_version") == nullptr) {
    return Fail(TENSORD_UNAVAILABLE, "torch is not loaded in this process (import torch first)");
  }
  *torch = {};
  auto* base = reinterpret_cast<char*>(torch);
  for (const ShimSymbol& symbol : kShimSymbols) {
    void* address = dlsym(symbol.library == kCpuLibrary ? cpu : cuda, symbol.name);
    std::memcpy(base + symbol.offset, &address, sizeof address);
  }
  const uint64_t version = torch->abi_version != nullptr ? torch->abi_version() : 0;
  if (version < kOldest) {
    return Fail(TENSORD_UNAVAILABLE, "torch " + std::to_string(version >> 56) + "." +
                                         std::to_string(version >> 48 & 0xff) +
                                         " is too old: tensord needs 2.11 or later");
  }
  for (const ShimSymbol& symbol : kShimSymbols) {
    void* address = nullptr;
    std::memcpy(&address, base + symbol.offset, sizeof address);
    if (address == nullptr && version >= symbol.since) {
      return Fail(TENSORD_UNAVAILABLE, std::string("torch has no symbol ") + symbol.name);
    }
  }
  return TENSORD_OK;
}

// The numbers of c10::ScalarType are part of torch's serialisation format and do not change.
constexpr struct {
  v1::DType dtype;
  DTypeInfo info;
} kDTypes[] = {
    {v1::DTYPE_BOOL, {11, 1, "bool"}},
    {v1::DTYPE_UINT8, {0, 1, "uint8"}},
    {v1::DTYPE_INT8, {1, 1, "int8"}},
    {v1::DTYPE_INT16, {2, 2, "int16"}},
    {v1::DTYPE_INT32, {3, 4, "int32"}},
    {v1::DTYPE_INT64, {4, 8, "int64"}},
    {v1::DTYPE_FLOAT16, {5, 2, "float16"}},
    {v1::DTYPE_BFLOAT16, {15, 2, "bfloat16"}},
    {v1::DTYPE_FLOAT32, {6, 4, "float32"}},
    {v1::DTYPE_FLOAT64, {7, 8, "float64"}},
    {v1::DTYPE_COMPLEX64, {9, 8, "complex64"}},
    {v1::DTYPE_COMPLEX128, {10, 16, "complex128"}},
    {v1::DTYPE_FLOAT8_E4M3FN, {24, 1, "float8_e4m3fn"}},
    {v1::DTYPE_FLOAT8_E5M2, {23, 1, "float8_e5m2"}},
    {v1::DTYPE_UINT16, {27, 2, "uint16"}},
    {v1::DTYPE_UINT32, {28, 4, "uint32"}},
    {v1::DTYPE_UINT64, {29, 8, "uint64"}},
};

}  // namespace

TensordError GetTorch(const Torch** torch) {
  static std::atomic<const Torch*> loaded{nullptr};
  if (const Torch* known = loaded.load(std::memory_order_acquire)) {
    *torch = known;
    return TENSORD_OK;
  }
  // Two threads may both load: they find the same, and the loser's few bytes go.
  auto* fresh = new Torch;
  if (TensordError code = Load(fresh); code != TENSORD_OK) {
    delete fresh;
    return code;
  }
  const Torch* expected = nullptr;
  if (!loaded.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) {
    delete fresh;
    *torch = expected;
    return TENSORD_OK;
  }
  *torch = fresh;
  return TENSORD_OK;
}

std::string TorchMessage(const Torch& torch) {
  if (torch.exception_what == nullptr) return "";
  const char* what = torch.exception_what();
  return what != nullptr ? what : "";
}

const DTypeInfo* FindDType(v1::DType dtype) {
  for (const auto& row : kDTypes) {
    if (row.dtype == dtype) return &row.info;
  }
  return nullptr;
}

std::string DTypeName(int32_t torch_dtype) {
  for (const auto& row : kDTypes) {
    if (row.info.torch == torch_dtype) return row.info.name;
  }
  return "dtype " + std::to_string(torch_dtype);
}

std::string DeviceName(int32_t torch_device) {
  if (torch_device == kTorchCpu) return "cpu";
  if (torch_device == kTorchCuda) return "cuda";
  return "device type " + std::to_string(torch_device);
}

int32_t TorchDevice(v1::DeviceType device) {
  if (device == v1::DEVICE_TYPE_CPU) return kTorchCpu;
  if (device == v1::DEVICE_TYPE_CUDA) return kTorchCuda;
  return -1;
}

int32_t TorchMemoryFormat(v1::MemoryFormat format) {
  return v1::MemoryFormat_IsValid(format) ? static_cast<int32_t>(format) - 1 : -1;
}

}  // namespace tensord::runtime
