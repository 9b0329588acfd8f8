// The passes of the compiler, in order.
#ifndef TENSORD_COMPILER_PIPELINE_H_
#define TENSORD_COMPILER_PIPELINE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "compiler/codegen/kernel.h"
#include "compiler/graph/graph.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/plan_kernels.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::compiler {

// Everything that one compile knows; each pass reads what earlier ones filled.
struct CompileState {
  const v1::CompileJob* job;
  Graph graph;
  Program program;
  Schedule schedule;
  std::vector<KernelPlan> kernel_plans;  // one per step; empty for extern calls
  std::vector<KernelSource> kernels;     // likewise
  MemoryPlan memory;
  v1::CompileResult result;
};

struct Pass {
  const char* name;
  absl::Status (*run)(CompileState& state);
  // Ends the worker when the pass broke what it promises; run behind the pass, in every build.
  void (*verify)(const CompileState& state) = nullptr;
};

const std::vector<Pass>& Pipeline();

// What a pass left behind, as text: for `tensorctl`, golden tests and debugging.
using DumpFn = std::function<void(const char* pass, const CompileState& state)>;

// Runs every pass with its time taken; `dump`, if given, is called after each.
absl::Status RunPipeline(CompileState& state, const DumpFn& dump = {});

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PIPELINE_H_
