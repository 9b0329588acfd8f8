// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/plan_kernel.h"

#include <absl/strings/str_cat.h>

#include "compiler/schedule/cpu/plan_nest.h"
#include "compiler/schedule/cpu/prepare_nest.h"

namespace tensord::compiler {
namespace {

// Less work than this is not worth a second thread.
constexpr int64_t kWorkPerTask = 65536;

// tk::kLanes of the prelude.
int LanesOf(v1::Isa isa) {
  switch (isa) {
    case v1::ISA_AVX512:
      return 16;
    case v1::ISA_AVX2:
      return 8;
    default:
      return 1;
  }
}

}  // namespace

CpuKernelPlan PlanCpuKernel(const Program& program, const Kernel& kernel,
                            const v1::CpuTarget& target) {
  CpuKernelPlan plan{.work_per_task = kWorkPerTask};
  for (const Nest& nest : kernel.nests) {
    PlannedCpuNest& planned = plan.nests.emplace_back();
    planned.nest = PrepareCpuNest(nest);
    planned.plan = PlanCpuNest(program, planned.nest, LanesOf(target.isa()));
  }
  return plan;
}

std::string ToString(const CpuKernelPlan& plan) {
  std::string text;
  for (const PlannedCpuNest& nest : plan.nests) {
    absl::StrAppend(&text, ToString(nest.nest), "  plan: ", ToString(nest.plan), "\n");
  }
  return text;
}

}  // namespace tensord::compiler
