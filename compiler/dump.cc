// SPDX-License-Identifier: Apache-2.0
#include "compiler/dump.h"

#include <absl/strings/str_cat.h>

#include "compiler/graph/text.h"
#include "compiler/kernel_ir/text.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/plan/text.h"

namespace tensord::compiler {
namespace {

constexpr const char* kPlaceNames[] = {"none",      "input", "constant",
                                       "workspace", "owned", "library result"};

std::string PlaceText(const Place& place) {
  std::string text = kPlaceNames[place.kind];
  if (place.kind == Place::kWorkspace) {
    absl::StrAppend(&text, " at ", sym::ToString(place.offset));
    if (place.block >= 0) absl::StrAppend(&text, " of block ", place.block);
  }
  return text;
}

std::string LifeText(const Lifetime& life) {
  if (life.first < 0) return "";
  if (life.first == life.last) return absl::StrCat(", step ", life.first);
  return absl::StrCat(", steps ", life.first, " to ", life.last);
}

}  // namespace

std::string DumpGraph(const CompileState& state) { return ToString(state.graph); }

std::string DumpProgram(const CompileState& state) { return ToString(state.program); }

std::string DumpSchedule(const CompileState& state) {
  std::string text;
  for (size_t i = 0; i < state.schedule.steps.size(); ++i) {
    const ScheduledStep& step = state.schedule.steps[i];
    if (const auto* kernel = std::get_if<Kernel>(&step.work)) {
      absl::StrAppend(&text, "step ", i, ": launch\n");
      for (const Nest& nest : kernel->nests) absl::StrAppend(&text, ToString(nest));
    } else {
      const int operation = std::get<int>(step.work);
      const auto& call = std::get<ExternOp>(state.program.operations[operation]);
      absl::StrAppend(&text, "step ", i, ": call ", call.op, call.overload.empty() ? "" : ".",
                      call.overload, "  # ", call.origin, "\n");
    }
  }
  return text;
}

std::string DumpKernelPlans(const CompileState& state) {
  std::string text;
  for (size_t i = 0; i < state.schedule.steps.size(); ++i) {
    const ScheduledStep& step = state.schedule.steps[i];
    const auto* kernel = std::get_if<Kernel>(&step.work);
    const ExternOp* attention = AttentionOf(state.program, step);
    if (kernel == nullptr && attention == nullptr) continue;
    absl::StrAppend(&text, "step ", i, ": ",
                    kernel != nullptr ? DescribeNodes(NodesOf(*kernel)) : attention->origin, "\n",
                    ToString(state.kernel_plans[i]), "\n");
  }
  return text;
}

std::string DumpKernels(const CompileState& state) {
  std::string text;
  for (size_t i = 0; i < state.kernels.size(); ++i) {
    if (state.kernels[i].source.empty()) continue;
    absl::StrAppend(&text, "---- step ", i, ": ", DescribeNodes(state.kernels[i].nodes), "\n",
                    ir::ToString(state.kernels[i].ir), "\n---- its source\n",
                    state.kernels[i].source, "\n");
  }
  return text;
}

std::string DumpMemory(const CompileState& state) {
  const MemoryPlan& plan = state.memory;
  std::string text = absl::StrCat("workspace: ", sym::ToString(plan.workspace_bytes), " bytes\n");
  if (plan.peak_bytes > 0) absl::StrAppend(&text, "peak: ", plan.peak_bytes, " bytes\n");
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const MemoryBlock& block = plan.blocks[i];
    absl::StrAppend(&text, "block ", i, ": ", block.bytes, " bytes");
    if (block.donor != MemoryBlock::kNoDonor) {
      absl::StrAppend(&text, " of input ", state.graph.inputs[block.donor].name);
    }
    absl::StrAppend(&text, "\n");
  }
  const std::vector<Lifetime> lifetimes = LifetimesOf(
      state.program, TouchedBuffers(state.program, state.schedule, LaunchesOf(state.kernels)));
  for (size_t i = 0; i < plan.places.size(); ++i) {
    if (plan.places[i].kind == Place::kNone) continue;
    const BufferInfo& buffer = state.program.buffers[i];
    absl::StrAppend(&text, "b", i, ": ", TypeText(buffer.dtype, buffer.sizes), " ",
                    PlaceText(plan.places[i]), LifeText(lifetimes[i]), "  # ", buffer.name, "\n");
  }
  return text;
}

std::string DumpPlan(const CompileState& state) { return ToString(state.result.artifact()); }

}  // namespace tensord::compiler
