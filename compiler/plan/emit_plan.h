// SPDX-License-Identifier: Apache-2.0
// The launch plan: schedule, kernels and memory plan as the proto that the runtime runs.
#ifndef TENSORD_COMPILER_PLAN_EMIT_PLAN_H_
#define TENSORD_COMPILER_PLAN_EMIT_PLAN_H_

#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/graph/graph.h"
#include "compiler/memory/plan_memory.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::compiler {

// Fills `result->artifact` and `result->units`; equal sources become one unit. `kernels[i]` belongs
// to step i of the schedule.
void EmitPlan(const Graph& graph, const Program& program, const Schedule& schedule,
              const std::vector<KernelSource>& kernels, const MemoryPlan& memory,
              const v1::Target& target, v1::CompileResult* result);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PLAN_EMIT_PLAN_H_
