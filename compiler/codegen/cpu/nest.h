// SPDX-License-Identifier: Apache-2.0
// Lowers one loop nest for CPU targets to the kernel IR.
//
// A nest becomes a function over units: rows of a tiled nest, chunks of a flat one, (outer index,
// block of columns) of a blocked one. Inside a unit the passes run one after the other, each over
// the inner loops with the last of them in vectors of tk::kLanes lanes and a masked remainder. What
// does not vary inside a loop is computed outside of it; what two members compute alike is computed
// once.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_NEST_H_
#define TENSORD_COMPILER_CODEGEN_CPU_NEST_H_

#include <optional>
#include <string>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

struct CpuNestFunctions {
  // NAME(args, begin, end, scratch): runs units [begin, end) with this task's scratch.
  ir::Function function;
  // NAME_finish(args, tasks, stride): combines the tasks' accumulators, which lie `stride` bytes
  // apart; where there are any.
  std::optional<ir::Function> finish;
  ir::Value units;  // how many units there are
  ir::Value work;   // elementary operations of the whole nest, roughly
};

CpuNestFunctions LowerCpuNest(const Program& program, const Nest& nest, const CpuPlan& plan,
                              const std::string& name, KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_NEST_H_
