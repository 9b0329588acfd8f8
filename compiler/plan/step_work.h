// SPDX-License-Identifier: Apache-2.0
// What a step of a program must do, whatever its code: the bytes that it has to move, and how much
// a library call computes. For profiles.
#ifndef TENSORD_COMPILER_PLAN_STEP_WORK_H_
#define TENSORD_COMPILER_PLAN_STEP_WORK_H_

#include <optional>

#include "compiler/schedule/launch.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

// Nothing where numbers would not fit 64 bits.
struct StepWork {
  std::optional<Expr> bytes_read, bytes_written;
  std::optional<Expr> flops;  // of products, convolutions and attention alone
};

// Every element that the step reads or writes in memory counts once: as many as the loops of its
// index have iterations, never more than its buffer has. A computed buffer that the step itself
// writes is not read. `launch`: of a kernel; other buffers of its nests are not in memory.
StepWork WorkOf(const Program& program, const ScheduledStep& step, const LaunchInterface& launch);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PLAN_STEP_WORK_H_
