// SPDX-License-Identifier: Apache-2.0
// torch's stable C interface, looked up in the process at run time: nothing here is linked.
//
// torch_shim.cc lists every symbol with the version that brought it; a symbol that is optional may
// be null. Handles are at::Tensor*: owned ones are released with `delete_tensor`.
#ifndef TENSORD_RUNTIME_TORCH_TORCH_SHIM_H_
#define TENSORD_RUNTIME_TORCH_TORCH_SHIM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/error.h"
#include "tensord/kernel_abi.h"
#include "tensord/v1/graph.pb.h"

namespace tensord::runtime {

using Handle = TensordTensor;
using StableValue = uint64_t;
using TorchError = int32_t;  // 0 is success

// A convolution's lists have `dims` numbers each; bias and bias_sizes are null where there is none.
using ConvolutionFn = TorchError (*)(Handle input, Handle weight, Handle* bias,
                                     const int64_t* stride, int64_t dims, const int64_t* padding,
                                     int64_t, const int64_t* dilation, int64_t, int32_t transposed,
                                     const int64_t* output_padding, int64_t, int64_t groups,
                                     Handle* result);
using ConvolutionBackwardFn = TorchError (*)(
    Handle gradient, Handle input, Handle weight, const int64_t** bias_sizes, int64_t,
    const int64_t* stride, int64_t dims, const int64_t* padding, int64_t, const int64_t* dilation,
    int64_t, int32_t transposed, const int64_t* output_padding, int64_t, int64_t groups,
    const int32_t* mask, int64_t, Handle* of_input, Handle* of_weight, Handle* of_bias);

struct Torch {
  uint64_t (*abi_version)();

  TorchError (*get_data_ptr)(Handle, void**);
  TorchError (*get_dim)(Handle, int64_t*);
  TorchError (*get_sizes)(Handle, int64_t**);
  TorchError (*get_strides)(Handle, int64_t**);
  TorchError (*get_dtype)(Handle, int32_t*);
  TorchError (*get_device_type)(Handle, int32_t*);
  TorchError (*get_device_index)(Handle, int32_t*);
  TorchError (*get_storage_offset)(Handle, int64_t*);
  TorchError (*get_storage_size)(Handle, int64_t*);
  TorchError (*is_defined)(Handle, bool*);

  TorchError (*delete_tensor)(Handle);
  TorchError (*new_tensor_handle)(Handle, Handle*);
  TorchError (*empty_strided)(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                              int32_t dtype, int32_t device_type, int32_t device_index, Handle*);
  // `offset_increment` is added to self's own storage offset.
  TorchError (*reinterpret_tensor)(Handle self, int64_t ndim, const int64_t* sizes,
                                   const int64_t* strides, int64_t offset_increment, Handle*);
  // A tensor of any dtype over self's storage; self's own offset must be 0.
  TorchError (*alloc_from_pool)(Handle self, int64_t offset_bytes, int32_t dtype, int64_t ndim,
                                const int64_t* sizes, const int64_t* strides, Handle*);
  TorchError (*copy)(Handle self, Handle source, int32_t non_blocking);
  TorchError (*clone_preserve_strides)(Handle self, Handle*);

  bool (*grad_mode_is_enabled)();
  void (*grad_mode_set_enabled)(bool);

  TorchError (*parallel_for)(int64_t begin, int64_t end, int64_t grain, TensordRangeFn, void*);
  TorchError (*get_num_threads)(uint32_t*);

  TorchError (*call_dispatcher)(const char* op, const char* overload, StableValue* stack,
                                uint64_t build_version);
  TorchError (*new_list)(size_t size, void** list);
  TorchError (*list_push_back)(void* list, StableValue);
  TorchError (*delete_list)(void* list);
  TorchError (*new_string)(const char* data, size_t size, void** string);

  // CPU kernels called without the dispatcher; their Scalars are doubles.
  TorchError (*cpu_mm_out)(Handle out, Handle self, Handle mat2);
  TorchError (*cpu_bmm_out)(Handle out, Handle self, Handle mat2);
  TorchError (*cpu_addmm_out)(Handle out, Handle self, Handle mat1, Handle mat2, double beta,
                              double alpha);
  TorchError (*cpu_baddbmm_out)(Handle out, Handle self, Handle batch1, Handle batch2, double beta,
                                double alpha);

  // Optional: only torch with CUDA has them.
  TorchError (*get_current_cuda_stream)(int32_t device_index, void** stream);
  TorchError (*create_cuda_guard)(int32_t device_index, void** guard);
  TorchError (*delete_cuda_guard)(void* guard);
  TorchError (*cuda_mm_out)(Handle out, Handle self, Handle mat2);
  TorchError (*cuda_bmm_out)(Handle out, Handle self, Handle mat2);
  TorchError (*cuda_addmm_out)(Handle out, Handle self, Handle mat1, Handle mat2, double beta,
                               double alpha);
  TorchError (*cuda_baddbmm_out)(Handle out, Handle self, Handle batch1, Handle batch2, double beta,
                                 double alpha);

  // Optional.
  ConvolutionFn cpu_convolution, cuda_convolution;
  ConvolutionBackwardFn cpu_convolution_backward, cuda_convolution_backward;

  // Optional: ranges for torch's profiler. The first is no part of the stable interface: whether
  // anybody listens (seen: 2.11 to 2.13).
  bool (*has_callbacks)();
  TorchError (*record_start)(const char* name, void* keywords, void* const* inputs,
                             uint64_t num_inputs, void** range);
  TorchError (*record_end)(void* range);

  // Optional: torch 2.13 and later.
  const char* (*exception_what)();
  TorchError (*new_stable_ivalue)(StableValue**);
};

// torch's functions, or TENSORD_UNAVAILABLE when torch is not in this process or is older
// than 2.11. A failure is not remembered: torch may be imported later.
TensordError GetTorch(const Torch** torch);

// The message of the last exception in this thread, where torch tells; "" otherwise.
std::string TorchMessage(const Torch& torch);

struct DTypeInfo {
  int32_t torch;  // ScalarType
  int32_t bytes;  // of an element
  const char* name;
};
// Null for an unknown or unspecified dtype.
const DTypeInfo* FindDType(v1::DType dtype);
// "float32"; the number in text for a dtype that the protocol does not know.
std::string DTypeName(int32_t torch_dtype);

inline constexpr int32_t kTorchInt64 = 4, kTorchUInt64 = 28;  // c10::ScalarType
inline constexpr int32_t kTorchCpu = 0, kTorchCuda = 1;       // c10::DeviceType
// "cpu", "cuda"; the number in text for others.
std::string DeviceName(int32_t torch_device);
// -1 for an unknown device.
int32_t TorchDevice(v1::DeviceType device);
// -1 for an unspecified format. The numbers of c10::MemoryFormat.
int32_t TorchMemoryFormat(v1::MemoryFormat format);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_TORCH_TORCH_SHIM_H_
