// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/plan_kernels.h"

#include <absl/strings/str_cat.h>

#include "compiler/schedule/cpu/verify_plan.h"
#include "compiler/schedule/cuda/verify_plan.h"

namespace tensord::compiler {
namespace {

// `kernel`: null of an extern call.
absl::Status VerifyPlan(const Kernel* kernel, const KernelPlan& plan) {
  const auto* cpu = std::get_if<CpuKernelPlan>(&plan);
  const auto* cuda = std::get_if<CudaKernelPlan>(&plan);
  if ((kernel != nullptr) != (cpu != nullptr || cuda != nullptr)) {
    return absl::InternalError("a kernel without a plan, or a plan without one");
  }
  if (kernel == nullptr) return absl::OkStatus();
  const size_t nests = cuda != nullptr ? cuda->nests.size() : cpu->nests.size();
  if (nests != kernel->nests.size()) return absl::InternalError("a nest without a plan");
  if (cpu != nullptr) {
    for (const PlannedCpuNest& nest : cpu->nests) {
      TENSORD_RETURN_IF_ERROR(VerifyCpuPlan(nest.nest, nest.plan));
    }
    return absl::OkStatus();
  }
  for (const PlannedCudaNest& nest : cuda->nests) {
    TENSORD_RETURN_IF_ERROR(VerifyCudaPlan(nest.nest, nest.plan));
    if (nest.plan.threads > cuda->threads) {
      return absl::InternalError("a nest has more threads than its launch");
    }
    const auto* sweep = nest.plan.As<CudaSweep>();
    if (sweep != nullptr && sweep->finish && sweep->finish->threads != cuda->finish_threads) {
      return absl::InternalError("a nest has other threads than its second launch");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<KernelPlan> PlanKernels(const Program& program, const Schedule& schedule,
                                    const v1::Target& target) {
  std::vector<KernelPlan> plans;
  for (const ScheduledStep& step : schedule.steps) {
    KernelPlan& plan = plans.emplace_back();
    const auto* kernel = std::get_if<Kernel>(&step.work);
    if (const ExternOp* op = AttentionOf(program, step)) plan = PlanCudaAttention(program, *op);
    if (kernel == nullptr) continue;
    if (target.has_cuda()) {
      plan = PlanCudaKernel(program, *kernel, target.cuda());
    } else {
      plan = PlanCpuKernel(program, *kernel, target.cpu());
    }
  }
  return plans;
}

absl::Status VerifyKernelPlans(const Program& program, const Schedule& schedule,
                               const std::vector<KernelPlan>& plans) {
  if (plans.size() != schedule.steps.size()) return absl::InternalError("a step without a plan");
  for (size_t i = 0; i < plans.size(); ++i) {
    if (AttentionOf(program, schedule.steps[i]) != nullptr) {
      if (std::holds_alternative<CudaAttentionPlan>(plans[i])) continue;
      return absl::InternalError(absl::StrCat("step ", i, ": attention without a plan"));
    }
    const absl::Status status = VerifyPlan(std::get_if<Kernel>(&schedule.steps[i].work), plans[i]);
    if (!status.ok()) return absl::InternalError(absl::StrCat("step ", i, ": ", status.message()));
  }
  return absl::OkStatus();
}

std::string ToString(const KernelPlan& plan) {
  if (const auto* cuda = std::get_if<CudaKernelPlan>(&plan)) return ToString(*cuda);
  if (const auto* cpu = std::get_if<CpuKernelPlan>(&plan)) return ToString(*cpu);
  if (const auto* attention = std::get_if<CudaAttentionPlan>(&plan)) return ToString(*attention);
  return "";
}

}  // namespace tensord::compiler
