// SPDX-License-Identifier: Apache-2.0
// The passes of the compiler, in order.
#ifndef TENSORD_COMPILER_PIPELINE_H_
#define TENSORD_COMPILER_PIPELINE_H_

#include <functional>
#include <string>
#include <string_view>
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

// A pass, or a part of one: parts are passes of their own, called "PASS/PART", that run in order in
// the place of their pass. The runner (pass_runner.cc) times, verifies and dumps each of them.
struct Pass {
  std::string name;
  std::function<absl::Status(CompileState& state)> run;  // none where there are parts
  // What the pass promises; run in every build behind each of its parts, or, where it has none for
  // the target, behind the pass itself.
  absl::Status (*verify)(const CompileState& state) = nullptr;
  // Whether it finds what only the caller can have got wrong: its InvalidArgument is passed on.
  bool may_refuse = false;
  // What it has made, as text.
  std::string (*dump)(const CompileState& state) = nullptr;
  std::vector<Pass> parts;
  // For a part that is only for some targets; none: for all.
  std::function<bool(const CompileState& state)> applies;
};

const std::vector<Pass>& Pipeline();
// The names of all passes and parts, in the order in which they run; a pass stands behind its
// parts.
std::vector<std::string> PassNames();

// Called behind every pass and every part that ran.
using PassObserver = std::function<void(const Pass& pass, const CompileState& state)>;

// Runs every pass. Stage times go to the result: a line for each pass; one for each part, which the
// pass's own line includes; and one called "verify" for all verifiers. So do spans, which have a
// beginning: of each pass and part that ran to its end, and of each verifier.
//
// What import and its verifier find is the caller's mistake (InvalidArgument), and so is what
// lowering says of a node: results that do not follow from its operator. Every other failure is
// ours: Internal, "PASS: what it said", also where a verifier finds that a pass broke its promise.
absl::Status RunPipeline(CompileState& state, const PassObserver& observer = {});
// The same with other passes than the pipeline's, for tests; the first has the place of import.
absl::Status RunPasses(const std::vector<Pass>& passes, CompileState& state,
                       const PassObserver& observer = {});

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_PIPELINE_H_
