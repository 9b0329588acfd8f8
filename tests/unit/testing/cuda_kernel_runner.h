// SPDX-License-Identifier: Apache-2.0
// Runs generated CUDA kernels without a GPU: the source that NVRTC would get, compiled as plain C++
// with cuda_on_host.h, its blocks one after the other and a block's threads as fibers. For small
// shapes: at a barrier each thread is a switch of contexts.
#ifndef TENSORD_TESTS_UNIT_TESTING_CUDA_KERNEL_RUNNER_H_
#define TENSORD_TESTS_UNIT_TESTING_CUDA_KERNEL_RUNNER_H_

#include <map>
#include <string>
#include <vector>

#include "tests/unit/testing/kernel_runner.h"

namespace tensord::testing {

class CudaKernelLibrary {
 public:
  CudaKernelLibrary();
  ~CudaKernelLibrary();

  // Compiles all of them in one translation unit; once.
  absl::Status Build(const std::vector<const compiler::KernelSource*>& kernels);
  // Ends the process when the kernel writes behind the shared memory that it asks for.
  void Launch(const compiler::KernelSource& kernel, const KernelArguments& arguments) const;

 private:
  using Entry = bool (*)(const void* words, int blocks, int threads, int shared);

  std::string folder_;
  std::map<std::string, std::vector<Entry>> entries_;  // by source, one for each function
};

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_CUDA_KERNEL_RUNNER_H_
