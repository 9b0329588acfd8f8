// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_module.h"

#include <utility>

#include "runtime/base/blobs.h"
#include "runtime/base/registry.h"

namespace tensord::runtime {
namespace {

// What every kernel may use without asking.
constexpr uint32_t kDefaultSharedBytes = 48 << 10;

}  // namespace

TensordError CudaModule::Load(const CudaDriver& driver) {
  if (library_ != nullptr) return TENSORD_OK;
  CuLibrary library = nullptr;
  const CuResult result =
      driver.load_library(&library, image_.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result != kCudaSuccess) {
    return CudaFailed(driver, result, "cannot load the CUDA module " + path_);
  }
  library_ = library;
  std::string().swap(image_);  // the driver has its own copy
  // Loaded for good: a kernel may still run, or be part of a captured CUDA graph, when the last
  // program that knows it goes.
  self_ = shared_from_this();
  return TENSORD_OK;
}

TensordError CudaModule::FindFunction(const CudaDriver& driver, const std::string& name,
                                      const KernelShape& shape, CuFunction* function) {
  TENSORD_TRY(Load(driver));
  const std::string what = "kernel '" + name + "' of the CUDA module " + path_;
  CuKernel kernel = nullptr;
  CuResult result = driver.get_kernel(&kernel, library_, name.c_str());
  if (result != kCudaSuccess) return CudaFailed(driver, result, "cannot find " + what);
  size_t offset = 0, bytes = 0;
  // The driver reads as much as the kernel declares, whatever was packed.
  if (driver.get_parameter != nullptr &&
      driver.get_parameter(kernel, 0, &offset, &bytes) == kCudaSuccess &&
      bytes != shape.parameter_bytes) {
    return Fail(TENSORD_CORRUPT, what + " takes " + std::to_string(bytes) +
                                     " bytes of arguments, the plan passes " +
                                     std::to_string(shape.parameter_bytes));
  }
  // A module for another GPU is found out here, where nothing has run yet.
  result = driver.get_function(function, kernel);
  if (result != kCudaSuccess) return CudaFailed(driver, result, "cannot load " + what);
  if (shape.shared_bytes <= kDefaultSharedBytes) return TENSORD_OK;
  int allowed = 0;
  result = driver.get_attribute(&allowed, kMaxDynamicSharedAttribute, *function);
  const int wanted = static_cast<int>(shape.shared_bytes);
  if (result == kCudaSuccess && allowed < wanted) {
    result = driver.set_attribute(*function, kMaxDynamicSharedAttribute, wanted);
  }
  if (result == kCudaSuccess) return TENSORD_OK;
  // The device has less than the target that the program was compiled for.
  (void)CudaFailed(driver, result,
                   what + " needs " + std::to_string(wanted) +
                       " bytes of shared memory, which this device does not allow");
  return TENSORD_CORRUPT;
}

TensordError OpenCudaModule(const std::string& folder, const std::string& sha256, uint64_t size,
                            std::shared_ptr<CudaModule>* module) {
  auto& registry = Registry<CudaModule>::Get();
  if ((*module = registry.Find(sha256)) != nullptr) return TENSORD_OK;
  BlobFile file;
  std::string content;
  TENSORD_TRY(file.Read(folder, sha256, size, &content));
  *module = registry.Add(sha256, std::make_shared<CudaModule>(std::move(content), file.path()));
  return TENSORD_OK;
}

}  // namespace tensord::runtime
