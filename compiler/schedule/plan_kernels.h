// SPDX-License-Identifier: Apache-2.0
// How each kernel of a schedule runs on the target: which threads do what, in which order, and what
// they keep where. Codegen only prints it.
//
// Requires: a schedule for the same target.
// Ensures: a plan for each kernel that its emitter can print as it is.
#ifndef TENSORD_COMPILER_SCHEDULE_PLAN_KERNELS_H_
#define TENSORD_COMPILER_SCHEDULE_PLAN_KERNELS_H_

#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "compiler/schedule/cpu/plan_kernel.h"
#include "compiler/schedule/cuda/attention.h"
#include "compiler/schedule/cuda/plan_kernel.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"

namespace tensord::compiler {

// Of a step; nothing for an extern call of the library.
using KernelPlan = std::variant<std::monostate, CpuKernelPlan, CudaKernelPlan, CudaAttentionPlan>;

// Per step of the schedule.
std::vector<KernelPlan> PlanKernels(const Program& program, const Schedule& schedule,
                                    const v1::Target& target);

// Checks that each kernel has a plan for each of its nests that keeps what its kind promises, and
// no other step has one. Internal, naming the step.
absl::Status VerifyKernelPlans(const Program& program, const Schedule& schedule,
                               const std::vector<KernelPlan>& plans);

std::string ToString(const KernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_PLAN_KERNELS_H_
