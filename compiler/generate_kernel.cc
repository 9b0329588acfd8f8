// SPDX-License-Identifier: Apache-2.0
#include "compiler/generate_kernel.h"

#include "compiler/codegen/cpu/kernel.h"
#include "compiler/codegen/cuda/attention.h"
#include "compiler/codegen/cuda/kernel.h"

namespace tensord::compiler {

KernelSource GenerateKernel(const Program& program, const ScheduledStep& step,
                            const KernelPlan& plan) {
  if (const auto* attention = std::get_if<CudaAttentionPlan>(&plan)) {
    return GenerateCudaAttention(program, *AttentionOf(program, step), *attention);
  }
  if (std::holds_alternative<std::monostate>(plan)) return {};
  const auto& kernel = std::get<Kernel>(step.work);
  if (const auto* cuda = std::get_if<CudaKernelPlan>(&plan)) {
    return GenerateCudaKernel(program, kernel, *cuda);
  }
  return GenerateCpuKernel(program, kernel, std::get<CpuKernelPlan>(plan));
}

}  // namespace tensord::compiler
