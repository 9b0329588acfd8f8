// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, opened when a CUDA program first runs: nothing of CUDA is linked.
//
// The few types are those of cuda.h under names of ours, so that the runtime builds without a
// toolkit. Contexts are torch's: the runtime makes torch's own primary context current where a
// thread has none.
#ifndef TENSORD_RUNTIME_CUDA_CUDA_DRIVER_H_
#define TENSORD_RUNTIME_CUDA_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/error.h"

namespace tensord::runtime {

// Devices of a host that the runtime serves; their indices are below it.
inline constexpr size_t kMaxDevices = 128;

using CuResult = int;  // 0 is success
using CuDevice = int;
using CuContext = struct CuContextOpaque*;
using CuLibrary = struct CuLibraryOpaque*;
using CuKernel = struct CuKernelOpaque*;
using CuFunction = struct CuFunctionOpaque*;  // a kernel in one context
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;

struct CuLaunchAttribute {  // CUlaunchAttribute
  int id;
  alignas(8) int value[16];  // a union of 64 bytes, most of whose members are one int
};
struct CuLaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned num_attributes;
};
// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
inline constexpr int kProgrammaticLaunchAttribute = 6;

inline constexpr CuResult kCudaSuccess = 0, kCudaInvalidContext = 201, kCudaNotReady = 600;
inline constexpr int kMaxDynamicSharedAttribute = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_...

// cuda_driver.cc lists the symbols; one that is optional may be null.
struct CudaDriver {
  CuResult (*init)(unsigned flags);
  CuResult (*get_version)(int*);
  CuResult (*get_error_name)(CuResult, const char**);
  CuResult (*get_error_string)(CuResult, const char**);

  CuResult (*get_context)(CuContext*);  // the thread's current one, or null
  CuResult (*get_device)(CuDevice*);    // of the current context
  CuResult (*device_of_index)(CuDevice*, int index);
  CuResult (*retain_primary_context)(CuContext*, CuDevice);
  CuResult (*set_context)(CuContext);

  CuResult (*load_library)(CuLibrary*, const void* image, void* jit_options, void** jit_values,
                           unsigned num_jit_options, void* options, void** values,
                           unsigned num_options);
  CuResult (*get_kernel)(CuKernel*, CuLibrary, const char* name);
  CuResult (*get_function)(CuFunction*, CuKernel);
  CuResult (*get_parameter)(CuKernel, size_t index, size_t* offset, size_t* size);  // optional
  CuResult (*get_attribute)(int* value, int attribute, CuFunction);
  CuResult (*set_attribute)(CuFunction, int attribute, int value);

  CuResult (*launch)(const CuLaunchConfig*, CuFunction, void** parameters, void** extra);
  CuResult (*fill_bytes)(uint64_t address, unsigned char value, size_t count, CuStream);
  CuResult (*query_stream)(CuStream);

  // Optional: for profiles.
  CuResult (*is_capturing)(CuStream, int* status);  // 0: it is not
  CuResult (*create_event)(CuEvent*, unsigned flags);
  CuResult (*destroy_event)(CuEvent);
  CuResult (*record_event)(CuEvent, CuStream);
  CuResult (*synchronize_event)(CuEvent);
  CuResult (*elapsed_time)(float* milliseconds, CuEvent begin, CuEvent end);
};

// TENSORD_UNAVAILABLE: no driver, one older than 12.0, or no device. A failure is not remembered.
// TENSORD_OPERATOR in a child that was forked after the parent used the driver, which CUDA forbids.
TensordError GetCudaDriver(const CudaDriver** driver);

// The device of the thread's context; kCudaInvalidContext where it has none, for which the driver's
// own answer would count as an error in tools that watch it.
CuResult CurrentDevice(const CudaDriver& driver, CuDevice* device);

// Fails with `what`, the result's name and text, and advice where there is some. The code says
// whose fault it is: CORRUPT (a module for another GPU), UNAVAILABLE (the driver), OUT_OF_MEMORY,
// else OPERATOR.
[[nodiscard]] TensordError CudaFailed(const CudaDriver& driver, CuResult result,
                                      const std::string& what);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUDA_DRIVER_H_
