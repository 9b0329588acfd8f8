// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORD_COMPILER_CODEGEN_CUDA_KERNEL_H_
#define TENSORD_COMPILER_CODEGEN_CUDA_KERNEL_H_

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/cuda/plan_kernel.h"

namespace tensord::compiler {

KernelSource GenerateCudaKernel(const Program& program, const Kernel& kernel,
                                const CudaKernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CUDA_KERNEL_H_
