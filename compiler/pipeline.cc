#include "compiler/pipeline.h"

#include <absl/strings/match.h>

#include <chrono>
#include <set>
#include <string>

#include "base/check.h"
#include "compiler/compile.h"
#include "compiler/decompose/lower_graph.h"
#include "compiler/decompose/lowering.h"
#include "compiler/import/import.h"
#include "compiler/kernel_ir/verify.h"
#include "compiler/plan/emit_plan.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/schedule/normalize.h"
#include "compiler/schedule/split_loops.h"
#include "compiler/schedule/unroll_reductions.h"

namespace tensord::compiler {
namespace {

constexpr absl::string_view kOwnOperators = "tensord::";

// The captured proto becomes a graph that later passes may trust.
absl::Status ImportPass(CompileState& state) {
  TENSORD_ASSIGN_OR_RETURN(state.graph, Import(state.job->graph()));
  return absl::OkStatus();
}

// Library calls take the form that is fastest on the target.
absl::Status RewritePass(CompileState& state) {
  std::vector<std::string> notes;
  RewriteGraph(state.job->target(), &state.graph, &notes);
  for (const std::string& note : notes) state.result.add_fusion_notes(note);
  return absl::OkStatus();
}

// Operators become loop nests over buffers; what nobody lowers becomes a library call, and so does
// what the job says.
absl::Status LowerPass(CompileState& state) {
  const auto& names = state.job->library_nodes();
  const std::set<std::string> library(names.begin(), names.end());
  for (Node& node : state.graph.nodes) {
    // What a rewrite has put in may be no operator of torch's.
    node.library = library.count(node.name) > 0 && !absl::StartsWith(node.op, kOwnOperators);
  }
  TENSORD_ASSIGN_OR_RETURN(state.program,
                           LowerGraph(state.graph, state.job->options().deterministic()));
  return absl::OkStatus();
}

// Loops run in the order of memory, without divisions, and are as few as can be.
absl::Status NormalizePass(CompileState& state) {
  UnrollShortReductions(&state.program);
  SplitLoops(&state.program);
  NormalizeLoops(&state.program);
  return absl::OkStatus();
}

// Operations share nests and nests share launches.
absl::Status SchedulePass(CompileState& state) {
  state.schedule = MakeSchedule(
      state.program, TraitsOf(state.job->target(), state.job->options().deterministic()));
  for (const std::string& note : state.schedule.notes) state.result.add_fusion_notes(note);
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
    const auto* kernel = std::get_if<Kernel>(&step.work);
    state.kernels.push_back(
        kernel == nullptr
            ? KernelSource{}
            : GenerateKernel(state.program, *kernel, state.kernel_plans[state.kernels.size()]));
  }
  return absl::OkStatus();
}

// Each buffer that is in memory has its place.
absl::Status MemoryPass(CompileState& state) {
  state.memory = PlanMemory(state.program, state.schedule, LaunchesOf(state.kernels),
                            RulesOf(state.job->target(), state.graph));
  return absl::OkStatus();
}

// The plan is data.
absl::Status PlanPass(CompileState& state) {
  EmitPlan(state.graph, state.program, state.schedule, state.kernels, state.memory,
           state.job->target(), &state.result);
  return absl::OkStatus();
}

void VerifyLoops(const CompileState& state) { VerifyProgram(state.program); }

void VerifyKernels(const CompileState& state) {
  for (const KernelSource& kernel : state.kernels) {
    if (kernel.source.empty()) continue;
    const absl::Status status = ir::Verify(kernel.ir);
    TENSORD_CHECK(status.ok(), status.message());
  }
}

void VerifyPlans(const CompileState& state) {
  VerifyKernelPlans(state.schedule, state.kernel_plans);
}

void VerifyPlaces(const CompileState& state) {
  VerifyMemory(state.program, state.schedule, LaunchesOf(state.kernels), state.memory);
}

}  // namespace

const std::vector<Pass>& Pipeline() {
  static const std::vector<Pass> passes = {
      {"import", ImportPass},
      {"rewrite", RewritePass},
      {"lower", LowerPass, VerifyLoops},
      {"normalize", NormalizePass, VerifyLoops},
      {"schedule", SchedulePass},
      {"plan_kernels", PlanKernelsPass, VerifyPlans},
      {"codegen", CodegenPass, VerifyKernels},
      {"memory", MemoryPass, VerifyPlaces},
      {"plan", PlanPass},
  };
  return passes;
}

absl::Status RunPipeline(CompileState& state, const DumpFn& dump) {
  for (const Pass& pass : Pipeline()) {
    const auto start = std::chrono::steady_clock::now();
    TENSORD_RETURN_IF_ERROR(pass.run(state));
    const auto elapsed = std::chrono::steady_clock::now() - start;
    v1::StageTime* time = state.result.add_stages();
    time->set_stage(pass.name);
    time->set_nanoseconds(std::chrono::nanoseconds(elapsed).count());
    if (pass.verify != nullptr) pass.verify(state);
    if (dump) dump(pass.name, state);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CompileResult> Compile(const v1::CompileJob& job) {
  CompileState state{.job = &job};
  TENSORD_RETURN_IF_ERROR(RunPipeline(state));
  return std::move(state.result);
}

absl::Status Verify(const v1::Graph& graph) {
  TENSORD_ASSIGN_OR_RETURN(const Graph imported, Import(graph));
  return LowerGraph(imported).status();
}

const std::vector<std::string>& LoweredOperators() {
  static const std::vector<std::string> names = OperatorNames();
  return names;
}

}  // namespace tensord::compiler
