// SPDX-License-Identifier: Apache-2.0
// A CUDA module: read and checked when a program is loaded, given to the driver when one first
// runs.
#ifndef TENSORD_RUNTIME_CUDA_CUDA_MODULE_H_
#define TENSORD_RUNTIME_CUDA_CUDA_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/error.h"
#include "runtime/cuda/cuda_driver.h"

namespace tensord::runtime {

// What the kernel's launch passes and needs.
struct KernelShape {
  size_t parameter_bytes = 0;
  uint32_t shared_bytes = 0;  // dynamic
};

class CudaModule : public std::enable_shared_from_this<CudaModule> {
 public:
  CudaModule(std::string image, std::string path)
      : image_(std::move(image)), path_(std::move(path)) {}
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  // The kernel `name` in the current context. Loads the library at the first call of the process;
  // allows the dynamic shared memory that the shape asks for. TENSORD_CORRUPT: no such kernel, one
  // that takes other arguments, a module for another GPU. Callers hold one lock for all modules.
  TensordError FindFunction(const CudaDriver& driver, const std::string& name,
                            const KernelShape& shape, CuFunction* function);

 private:
  TensordError Load(const CudaDriver& driver);

  std::string image_;  // a cubin or the text of PTX; empty once loaded
  std::string path_;
  CuLibrary library_ = nullptr;
  std::shared_ptr<CudaModule> self_;
};

// As LoadModule of blobs.h: checked, and once per process and digest.
TensordError OpenCudaModule(const std::string& folder, const std::string& sha256, uint64_t size,
                            std::shared_ptr<CudaModule>* module);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CUDA_CUDA_MODULE_H_
