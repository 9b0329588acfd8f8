#include "compiler/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

int64_t NestBytes(const Program& program, const std::vector<int>& ops) {
  std::set<BufferId> touched;
  for (int op : ops) {
    const Accesses accesses = AccessesOf(program.operations[op]);
    touched.insert(accesses.reads.begin(), accesses.reads.end());
    touched.insert(accesses.writes.begin(), accesses.writes.end());
  }
  int64_t bytes = 0;
  for (BufferId id : touched) bytes += BufferBytes(program.buffers[id]);
  return bytes;
}

// Of what the group leaves in memory for others within the call. Outputs are there in the end
// anyway, when memory is fullest in most calls.
int64_t ResultBytes(const Program& program, const std::set<BufferId>& outputs, const Group& group) {
  std::set<BufferId> written;
  for (int op : group.ops) written.merge(AccessesOf(program.operations[op]).writes);
  int64_t bytes = 0;
  for (BufferId id : written) {
    if (group.nest.local.count(id) + outputs.count(id) == 0)
      bytes += BufferBytes(program.buffers[id]);
  }
  return bytes;
}

}  // namespace

Schedule MakeSchedule(const Program& program, const DeviceTraits& device) {
  FusionResult fused = Fuse(program, device);
  Schedule schedule;
  schedule.notes = std::move(fused.notes);
  const std::vector<std::set<int>> predecessors = Predecessors(program);
  std::set<BufferId> outputs;
  for (const ProgramOutput& output : program.outputs) {
    if (output.kind == ProgramOutput::kTensor) outputs.insert(output.view.buffer);
  }
  std::map<int, int> step_of;  // operation -> step
  std::vector<int64_t> ahead;  // per step: bytes that are there earlier than they must
  // A kernel may take a nest when everything that the nest needs has run in earlier steps, and when
  // what runs early leaves no more in memory than it may. The earliest such kernel takes it.
  for (Group& group : fused.groups) {
    int after = -1;
    for (int op : group.ops) {
      for (int p : predecessors[op]) {
        if (auto it = step_of.find(p); it != step_of.end()) after = std::max(after, it->second);
      }
    }
    int step = -1;
    const int64_t results = group.is_extern ? 0 : ResultBytes(program, outputs, group);
    if (!group.is_extern && NestBytes(program, group.ops) <= device.large_nest_bytes) {
      int first = static_cast<int>(schedule.steps.size());
      while (first > after + 1 && ahead[first - 1] <= device.most_bytes_ahead - results) --first;
      for (int s = first; s < static_cast<int>(schedule.steps.size()) && step < 0; ++s) {
        const auto* kernel = std::get_if<Kernel>(&schedule.steps[s].work);
        if (kernel == nullptr || kernel->nests.size() >= device.most_nests) continue;
        int64_t bytes = 0;
        for (const Nest& nest : kernel->nests) {
          std::vector<int> ops;
          for (const NestMember& member : nest.members) ops.push_back(member.op);
          bytes = std::max(bytes, NestBytes(program, ops));
        }
        if (bytes <= device.large_nest_bytes) step = s;
      }
    }
    if (step >= 0) {
      for (size_t s = step; s < ahead.size(); ++s) ahead[s] += results;
    } else {
      step = static_cast<int>(schedule.steps.size());
      ahead.push_back(0);
      if (group.is_extern) {
        schedule.steps.push_back({group.ops[0]});
      } else {
        schedule.steps.push_back({Kernel{}});
      }
    }
    if (!group.is_extern) {
      std::get<Kernel>(schedule.steps[step].work).nests.push_back(std::move(group.nest));
    }
    for (int op : group.ops) step_of[op] = step;
  }
  return schedule;
}

}  // namespace tensord::compiler
