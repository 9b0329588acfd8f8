// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/plan_kernels.h"

#include "base/check.h"

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

void VerifyKernelPlans(const Schedule& schedule, const std::vector<KernelPlan>& plans) {
  TENSORD_CHECK(plans.size() == schedule.steps.size(), "a step without a plan");
  for (size_t i = 0; i < plans.size(); ++i) {
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[i].work);
    const auto* cpu = std::get_if<CpuKernelPlan>(&plans[i]);
    const auto* cuda = std::get_if<CudaKernelPlan>(&plans[i]);
    TENSORD_CHECK((kernel != nullptr) == (cpu != nullptr || cuda != nullptr),
                  "a kernel without a plan, or a plan without one");
    if (kernel == nullptr) continue;
    const size_t nests = cuda != nullptr ? cuda->nests.size() : cpu->nests.size();
    TENSORD_CHECK(nests == kernel->nests.size(), "a nest without a plan");
    if (cuda == nullptr) continue;
    for (const PlannedCudaNest& nest : cuda->nests) {
      VerifyCudaPlan(nest.plan);
      TENSORD_CHECK(nest.plan.threads <= cuda->threads, "a nest has more threads than its launch");
    }
  }
}

std::string ToString(const KernelPlan& plan) {
  if (const auto* cuda = std::get_if<CudaKernelPlan>(&plan)) return ToString(*cuda);
  if (const auto* cpu = std::get_if<CpuKernelPlan>(&plan)) return ToString(*cpu);
  return "";
}

}  // namespace tensord::compiler
