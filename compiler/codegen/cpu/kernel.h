// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORD_COMPILER_CODEGEN_CPU_KERNEL_H_
#define TENSORD_COMPILER_CODEGEN_CPU_KERNEL_H_

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/cpu/plan_kernel.h"

namespace tensord::compiler {

KernelSource GenerateCpuKernel(const Program& program, const Kernel& kernel,
                               const CpuKernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_KERNEL_H_
