// SPDX-License-Identifier: Apache-2.0
#include "runtime/load/lifetimes.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace tensord::runtime {
namespace {

constexpr int64_t kBefore = -1;  // the first step

// Calls `use` with the root of each buffer that a step touches.
template <typename Use>
void ForEachRoot(const TensordProgram& program, const StepPlan& step, const Use& use) {
  const auto root = [&](uint32_t buffer) { use(program.buffers[buffer].root); };
  switch (step.kind) {
    case StepPlan::kLaunch:
      for (uint32_t buffer : program.launches[step.index].buffers) root(buffer);
      break;
    case StepPlan::kCall: {
      const CallPlan& call = *program.calls[step.index];
      for (const ArgumentPlan& argument : call.arguments) {
        if (argument.buffer != ArgumentPlan::kNothing) root(argument.buffer);
      }
      for (uint32_t buffer : call.results) root(buffer);
      break;
    }
    case StepPlan::kAllocate:
    case StepPlan::kFree:
    case StepPlan::kRelease:
    case StepPlan::kZeroFill:
    case StepPlan::kBeginWrite:
      break;
  }
}

bool Allocates(const TensordProgram& program, const StepPlan& step) {
  if (step.kind == StepPlan::kCall) return !program.calls[step.index]->into_out;
  return step.kind == StepPlan::kAllocate;
}

// The inputs that may be released at all.
std::vector<bool> Releasable(const TensordProgram& program) {
  std::vector<bool> releasable;
  for (const InputPlan& input : program.inputs) {
    releasable.push_back(input.is_tensor && !input.is_parameter);
  }
  const auto keep = [&](uint32_t buffer) {
    const BufferPlan& root = program.buffers[program.buffers[buffer].root];
    if (root.storage == Storage::kInput) releasable[root.source] = false;
  };
  for (uint32_t written : program.written_inputs) keep(written);
  for (const OutputPlan& output : program.outputs) {
    if (output.kind == OutputPlan::kBuffer) keep(output.index);
  }
  return releasable;
}

}  // namespace

void AddReleases(TensordProgram* program) {
  const auto count = static_cast<uint32_t>(program->buffers.size());
  std::vector<int64_t> last(count, kBefore);  // per root
  int64_t last_allocation = kBefore;
  for (size_t i = 0; i < program->steps.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    ForEachRoot(*program, program->steps[i], [&](uint32_t root) { last[root] = number; });
    if (Allocates(*program, program->steps[i])) last_allocation = number;
  }
  // By the step that they follow.
  std::multimap<int64_t, StepPlan> ends;
  std::vector<int64_t> last_of_input(program->inputs.size(), kBefore);
  std::vector<uint32_t> buffer_of_input(program->inputs.size(), count);
  for (uint32_t i = 0; i < count; ++i) {
    const BufferPlan& buffer = program->buffers[i];
    if (buffer.standalone && last[i] != kBefore) ends.insert({last[i], {StepPlan::kFree, i}});
    if (buffer.storage != Storage::kInput || last[i] < last_of_input[buffer.source]) continue;
    last_of_input[buffer.source] = last[i];
    buffer_of_input[buffer.source] = i;
  }
  const std::vector<bool> releasable = Releasable(*program);
  std::vector<bool> is_donor(program->inputs.size());
  for (const uint32_t block : program->standalone) {
    const uint32_t donor = program->buffers[block].donor;
    if (donor != BufferPlan::kNoDonor) is_donor[donor] = true;
  }
  for (uint32_t i = 0; i < program->inputs.size(); ++i) {
    if (!releasable[i] || buffer_of_input[i] == count) continue;
    // Behind the last allocation nobody wants its memory any more.
    if (last_of_input[i] >= last_allocation && !is_donor[i]) continue;
    ends.insert({last_of_input[i], {StepPlan::kRelease, buffer_of_input[i]}});
    program->released_inputs.push_back(i);
  }
  if (ends.empty()) return;
  std::vector<StepPlan> steps;
  const auto add = [&](int64_t after) {
    const auto [first, end] = ends.equal_range(after);
    for (auto it = first; it != end; ++it) steps.push_back(it->second);
  };
  add(kBefore);
  for (size_t i = 0; i < program->steps.size(); ++i) {
    steps.push_back(program->steps[i]);
    add(static_cast<int64_t>(i));
  }
  program->steps = std::move(steps);
}

}  // namespace tensord::runtime
