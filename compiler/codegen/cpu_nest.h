// C++ text of one loop nest for CPU targets.
//
// A nest becomes a function over units: rows of a tiled nest, chunks of a flat one, (outer index,
// block of columns) of a blocked one. Inside a unit the passes run one after the other, each over
// the inner loops with the last of them in vectors of tk::kLanes lanes and a masked remainder. What
// does not vary inside a loop is computed outside of it; what two members compute alike is computed
// once.
#ifndef TENSORD_COMPILER_CODEGEN_CPU_NEST_H_
#define TENSORD_COMPILER_CODEGEN_CPU_NEST_H_

#include <string>

#include "compiler/codegen/interface.h"
#include "compiler/schedule/cpu/plan.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

struct NestText {
  // `static void NAME(const TensordKernelArgs* args, int64_t begin, int64_t end, char* scratch)`:
  // runs units [begin, end) with this task's scratch.
  std::string function;
  // `static void NAME_finish(const TensordKernelArgs* args, int64_t tasks, int64_t stride)`:
  // combines the tasks' accumulators, which lie `stride` bytes apart. Empty when there are none.
  std::string finish;
  std::string units;  // C++ text over n<k>: how many units there are
  std::string work;   // C++ text over n<k>: elementary operations of the whole nest, roughly
};

NestText EmitNest(const Program& program, const Nest& nest, const CpuPlan& plan,
                  const std::string& name, KernelInterface* interface);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_CODEGEN_CPU_NEST_H_
