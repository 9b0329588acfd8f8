// SPDX-License-Identifier: Apache-2.0
// One kernel's code, whichever target its plan is for.
#ifndef TENSORD_COMPILER_GENERATE_KERNEL_H_
#define TENSORD_COMPILER_GENERATE_KERNEL_H_

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/plan_kernels.h"

namespace tensord::compiler {

// `plan`: the step's. Empty where it has none: of a call of the library.
KernelSource GenerateKernel(const Program& program, const ScheduledStep& step,
                            const KernelPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_GENERATE_KERNEL_H_
