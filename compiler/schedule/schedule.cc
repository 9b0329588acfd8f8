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

}  // namespace

Schedule MakeSchedule(const Program& program, const DeviceTraits& device) {
  FusionResult fused = Fuse(program, device);
  Schedule schedule;
  schedule.notes = std::move(fused.notes);
  const std::vector<std::set<int>> predecessors = Predecessors(program);
  std::map<int, int> step_of;  // operation -> step
  // A kernel may take a nest when everything that the nest needs has run in earlier steps; the
  // latest such kernel after the nest's predecessors is the first candidate.
  for (Group& group : fused.groups) {
    int after = -1;
    for (int op : group.ops) {
      for (int p : predecessors[op]) {
        if (auto it = step_of.find(p); it != step_of.end()) after = std::max(after, it->second);
      }
    }
    int step = -1;
    if (!group.is_extern && NestBytes(program, group.ops) <= device.large_nest_bytes) {
      for (int s = after + 1; s < static_cast<int>(schedule.steps.size()) && step < 0; ++s) {
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
    if (step < 0) {
      step = static_cast<int>(schedule.steps.size());
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
