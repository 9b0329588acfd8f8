// SPDX-License-Identifier: Apache-2.0
// The verifier of what a launch is: the interface of each kernel, not its text.
//
// Checks, for every kernel, that
//   - it has a source, and functions of different names that the source has;
//   - none of its arguments is local to a nest; nests that share a function may each have theirs,
//   so
//     one buffer may stand there several times, and what a nest loads but does not need is absent;
//   - what it writes are arguments, among them all that its nests write and that is not local;
//   - its integers are free of loops, so that they are known at the launch;
//   - a CUDA function has blocks of 1 to 1024 threads, and a function for a CPU none.
#ifndef TENSORD_COMPILER_CODEGEN_VERIFY_KERNELS_H_
#define TENSORD_COMPILER_CODEGEN_VERIFY_KERNELS_H_

#include <vector>

#include "base/status.h"
#include "compiler/codegen/kernel.h"

namespace tensord::compiler {

// `kernels[i]` belongs to step i (empty for extern steps). Internal, naming the step.
absl::Status VerifyKernels(const Program& program, const Schedule& schedule,
                           const std::vector<KernelSource>& kernels, bool is_cuda);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_VERIFY_KERNELS_H_
