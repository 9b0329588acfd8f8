// SPDX-License-Identifier: Apache-2.0
// The plan of one CPU launch: that of each nest, and how much work is worth a task.
#ifndef TENSORD_COMPILER_SCHEDULE_CPU_PLAN_KERNEL_H_
#define TENSORD_COMPILER_SCHEDULE_CPU_PLAN_KERNEL_H_

#include <string>
#include <vector>

#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

struct PlannedCpuNest {
  Nest nest;  // in the form that PrepareCpuNest gives it
  CpuPlan plan;
};

struct CpuKernelPlan {
  std::vector<PlannedCpuNest> nests;  // as in the kernel
  int64_t work_per_task = 0;          // elementary operations that are worth one more task
};

CpuKernelPlan PlanCpuKernel(const Program& program, const Kernel& kernel,
                            const v1::CpuTarget& target);

// A line for each nest.
std::string ToString(const CpuKernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_CPU_PLAN_KERNEL_H_
