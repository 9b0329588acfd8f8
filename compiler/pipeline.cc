// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/cuda_architecture.h"
#include "compiler/codegen/verify_kernels.h"
#include "compiler/compile.h"
#include "compiler/decompose/lower_graph.h"
#include "compiler/decompose/lowering.h"
#include "compiler/dump.h"
#include "compiler/generate_kernel.h"
#include "compiler/graph/verify.h"
#include "compiler/import/import.h"
#include "compiler/kernel_ir/verify.h"
#include "compiler/memory/verify_memory.h"
#include "compiler/plan/emit_plan.h"
#include "compiler/plan/fusion_graph.h"
#include "compiler/plan/verify_plan.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/schedule/normalize_loops.h"
#include "compiler/schedule/order_calls.h"
#include "compiler/schedule/split_loops.h"
#include "compiler/schedule/unroll_parts.h"
#include "compiler/schedule/unroll_reductions.h"
#include "compiler/schedule/verify_schedule.h"

namespace tensord::compiler {
namespace {

// The captured proto becomes a graph.
absl::Status ImportPass(CompileState& state) {
  TENSORD_ASSIGN_OR_RETURN(state.graph, Import(state.job->graph()));
  return absl::OkStatus();
}

// Library calls take the form that is fastest on the target.
std::vector<Pass> RewriteParts() {
  std::vector<Pass> parts;
  for (const GraphRewrite& rewrite : RewritePasses()) {
    Pass part{.name = absl::StrCat("rewrite/", rewrite.name), .dump = DumpGraph};
    part.run = [&rewrite](CompileState& state) {
      const int count = rewrite.run(state.job->target(), &state.graph);
      if (count > 0) state.result.add_fusion_notes(absl::StrCat(rewrite.name, ": ", count));
      return absl::OkStatus();
    };
    part.applies = [&rewrite](const CompileState& state) {
      const bool emulates = state.job->options().emulate_eager_rounding();
      return rewrite.IsFor(state.job->target()) &&
             (rewrite.roundings == Roundings::kSame || !emulates);
    };
    parts.push_back(std::move(part));
  }
  return parts;
}

// Operators become loop nests over buffers; what nobody lowers becomes a library call, and so does
// what the job says.
absl::Status LowerPass(CompileState& state) {
  const auto& names = state.job->library_nodes();
  const std::set<std::string> library(names.begin(), names.end());
  for (Node& node : state.graph.nodes) {
    node.library = library.count(node.name) > 0 && IsInJobs(node.op);
  }
  const v1::CompileOptions& options = state.job->options();
  const bool is_cuda = state.job->target().has_cuda();
  TENSORD_ASSIGN_OR_RETURN(
      state.program,
      LowerGraph(state.graph,
                 {.deterministic = options.deterministic(),
                  .checks_data = !options.unchecked(),
                  .eager_rounding = options.emulate_eager_rounding(),
                  .has_warpgroups = is_cuda && HasWarpgroups(state.job->target().cuda().sm()),
                  .target = is_cuda ? v1::DEVICE_TYPE_CUDA : v1::DEVICE_TYPE_UNSPECIFIED}));
  return absl::OkStatus();
}

// Loops run in the order of memory, without divisions, and are as few as can be.
std::vector<Pass> NormalizeParts() {
  const auto part = [](const char* name, void (*run)(Program* program)) {
    return Pass{.name = absl::StrCat("normalize/", name),
                .run =
                    [run](CompileState& state) {
                      run(&state.program);
                      return absl::OkStatus();
                    },
                .dump = DumpProgram};
  };
  return {part("unroll_reductions", UnrollReductions), part("split_loops", SplitLoops),
          part("unroll_parts", UnrollParts), part("normalize_loops", NormalizeLoops)};
}

// By input: whether its memory goes when the call needs it no more.
std::vector<bool> ReleasedInputs(const CompileState& state) {
  std::vector<bool> released;
  for (const GraphInput& input : state.graph.inputs) {
    released.push_back(state.job->options().releases_inputs() && !input.is_parameter);
  }
  return released;
}

// Operations share nests and nests share launches.
absl::Status SchedulePass(CompileState& state) {
  state.schedule = MakeSchedule(state.program,
                                TraitsOf(state.job->target(), state.job->options().deterministic()),
                                ReleasedInputs(state));
  for (const std::string& note : state.schedule.notes) state.result.add_fusion_notes(note);
  return absl::OkStatus();
}

// Neighbouring calls run in the order that takes less memory.
absl::Status OrderCallsPass(CompileState& state) {
  OrderCalls(state.program, ReleasedInputs(state), &state.schedule);
  return absl::OkStatus();
}

// How the threads of each kernel share its nests' work is decided.
absl::Status PlanKernelsPass(CompileState& state) {
  state.kernel_plans = PlanKernels(state.program, state.schedule, state.job->target());
  return absl::OkStatus();
}

// Each kernel has its source and its arguments.
absl::Status CodegenPass(CompileState& state) {
  for (const ScheduledStep& step : state.schedule.steps) {
    state.kernels.push_back(
        GenerateKernel(state.program, step, state.kernel_plans[state.kernels.size()]));
  }
  return absl::OkStatus();
}

// Each buffer that is in memory has its place.
absl::Status MemoryPass(CompileState& state) {
  state.memory = PlanMemory(state.program, state.schedule, LaunchesOf(state.kernels),
                            RulesOf(state.job->target(), state.job->options(), state.graph));
  return absl::OkStatus();
}

// The plan is data.
absl::Status PlanPass(CompileState& state) {
  EmitPlan(state.graph, state.program, state.schedule, state.kernels, state.memory,
           state.job->target(), &state.result);
  *state.result.mutable_fusion() = ToFusionGraph(state.job->graph(), state.program, state.schedule,
                                                 state.kernels, state.result.artifact());
  return absl::OkStatus();
}

// ---- What holds behind the passes.

absl::Status GraphHolds(const CompileState& state) { return VerifyGraph(state.graph); }

absl::Status LoopsHold(const CompileState& state) { return VerifyProgram(state.program); }

absl::Status ScheduleHolds(const CompileState& state) {
  return VerifySchedule(state.program, state.schedule);
}

absl::Status KernelPlansHold(const CompileState& state) {
  return VerifyKernelPlans(state.program, state.schedule, state.kernel_plans);
}

absl::Status KernelsHold(const CompileState& state) {
  for (const KernelSource& kernel : state.kernels) {
    if (!kernel.source.empty()) TENSORD_RETURN_IF_ERROR(ir::Verify(kernel.ir));
  }
  return VerifyKernels(state.program, state.schedule, state.kernels,
                       state.job->target().has_cuda());
}

absl::Status PlacesHold(const CompileState& state) {
  return VerifyMemory(state.program, state.schedule, LaunchesOf(state.kernels), state.memory);
}

absl::Status PlanHolds(const CompileState& state) { return VerifyPlan(state.result); }

}  // namespace

const std::vector<Pass>& Pipeline() {
  static const auto* const passes = new std::vector<Pass>{
      {.name = "import", .run = ImportPass, .verify = GraphHolds, .dump = DumpGraph},
      {.name = "rewrite", .verify = GraphHolds, .dump = DumpGraph, .parts = RewriteParts()},
      {.name = "lower",
       .run = LowerPass,
       .verify = LoopsHold,
       .may_refuse = true,
       .dump = DumpProgram},
      {.name = "normalize", .verify = LoopsHold, .dump = DumpProgram, .parts = NormalizeParts()},
      {.name = "schedule", .run = SchedulePass, .verify = ScheduleHolds, .dump = DumpSchedule},
      {.name = "order_calls", .run = OrderCallsPass, .verify = ScheduleHolds, .dump = DumpSchedule},
      {.name = "plan_kernels",
       .run = PlanKernelsPass,
       .verify = KernelPlansHold,
       .dump = DumpKernelPlans},
      {.name = "codegen", .run = CodegenPass, .verify = KernelsHold, .dump = DumpKernels},
      {.name = "memory", .run = MemoryPass, .verify = PlacesHold, .dump = DumpMemory},
      {.name = "plan", .run = PlanPass, .verify = PlanHolds, .dump = DumpPlan},
  };
  return *passes;
}

absl::StatusOr<v1::CompileResult> Compile(const v1::CompileJob& job) {
  CompileState state{.job = &job};
  TENSORD_RETURN_IF_ERROR(RunPipeline(state));
  return std::move(state.result);
}

absl::Status CompileAndDump(const v1::CompileJob& job, const std::string& after,
                            const std::function<void(const std::string& text)>& print) {
  const std::vector<std::string> known = PassNames();
  if (after != "all" && std::find(known.begin(), known.end(), after) == known.end()) {
    return absl::NotFoundError(
        absl::StrCat("no pass '", after, "'; there are ", absl::StrJoin(known, ", "), " and all"));
  }
  CompileState state{.job = &job};
  bool ran = false;
  std::string before;
  TENSORD_RETURN_IF_ERROR(RunPipeline(state, [&](const Pass& pass, const CompileState& made) {
    // A pass with parts has made what the last of them has.
    const bool wanted = after == "all" ? pass.parts.empty() : after == pass.name;
    if (!wanted) return;
    ran = true;
    std::string dump = pass.dump(made);
    print(absl::StrCat("==== ", pass.name, "\n", dump == before ? "unchanged\n" : dump, "\n"));
    before = std::move(dump);
  }));
  if (!ran) print(absl::StrCat("==== ", after, "\nis not for this target\n"));
  return absl::OkStatus();
}

const std::vector<std::string>& LoweredOperators() {
  static const std::vector<std::string> names = LoweringNames();
  return names;
}

}  // namespace tensord::compiler
