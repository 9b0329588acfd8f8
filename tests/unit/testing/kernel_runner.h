// SPDX-License-Identifier: Apache-2.0
// Runs a compiled program's generated kernels for real: through the JIT, on host memory, with any
// number of threads. For programs without library calls.
#ifndef TENSORD_TESTS_UNIT_TESTING_KERNEL_RUNNER_H_
#define TENSORD_TESTS_UNIT_TESTING_KERNEL_RUNNER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/pipeline.h"
#include "tests/unit/testing/interpreter.h"

namespace tensord::testing {

// Kernels by their source, loaded once.
class KernelLibrary {
 public:
  explicit KernelLibrary(v1::Isa isa);
  ~KernelLibrary();

  // Compiles these sources, in parallel and each once.
  absl::Status Add(const std::vector<std::string>& sources);
  void* Find(const std::string& source) const;
  v1::Isa isa() const { return isa_; }

 private:
  v1::Isa isa_;
  std::string folder_;
  std::map<std::string, void*> kernels_;
};

// What a kernel's launch gets.
struct KernelArguments {
  std::vector<void*> pointers;
  std::vector<int64_t> integers;
  int64_t scratch_bytes;
  int64_t counters;
  std::function<int64_t(const sym::Expr&)> value_of;  // of sizes
};
using KernelLauncher = std::function<void(const compiler::KernelSource&, const KernelArguments&)>;

// Runs the schedule of `state`, each kernel by `launch`.
std::vector<HostTensor> RunSchedule(const compiler::CompileState& state,
                                    const KernelLauncher& launch, std::vector<HostTensor>& inputs,
                                    const InterpreterOptions& options = {});

// The same for the CPU; the kernels must be in the library.
std::vector<HostTensor> RunKernels(const compiler::CompileState& state,
                                   const KernelLibrary& library, std::vector<HostTensor>& inputs,
                                   int threads, const InterpreterOptions& options = {});

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_KERNEL_RUNNER_H_
