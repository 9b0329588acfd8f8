#include "compiler/schedule/plan_kernels.h"

namespace tensord::compiler {

std::vector<KernelPlan> PlanKernels(const Program& program, const Schedule& schedule,
                                    const v1::Target& target) {
  std::vector<KernelPlan> plans;
  for (const ScheduledStep& step : schedule.steps) {
    KernelPlan& plan = plans.emplace_back();
    const auto* kernel = std::get_if<Kernel>(&step.work);
    if (kernel == nullptr) continue;
    if (target.has_cuda()) {
      plan = PlanCudaKernel(program, *kernel, target.cuda());
    } else {
      plan = PlanCpuKernel(program, *kernel, target.cpu());
    }
  }
  return plans;
}

std::string ToString(const KernelPlan& plan) {
  if (const auto* cuda = std::get_if<CudaKernelPlan>(&plan)) return ToString(*cuda);
  if (const auto* cpu = std::get_if<CpuKernelPlan>(&plan)) return ToString(*cpu);
  return "";
}

}  // namespace tensord::compiler
