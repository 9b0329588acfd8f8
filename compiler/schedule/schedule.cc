// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "compiler/schedule/access.h"
#include "compiler/schedule/equal_nests.h"
#include "compiler/schedule/live_bytes.h"

namespace tensord::compiler {
namespace {

// What counts when a nest looks for a launch.
struct NestFacts {
  int64_t bytes = 0;
  size_t words = 0;
  std::string structure;   // what it shares with others that one function can serve, or ""
  std::string operations;  // what it shares with others of any size that compute the same, or ""
  // What it leaves in memory for others within the call. Inputs that it writes have their memory,
  // and outputs are there in the end anyway, when memory is fullest in most calls.
  int64_t results = 0;  // bytes
};

NestFacts FactsOf(const Program& program, const AccessIndex& index, const Group& group,
                  const DeviceTraits& device) {
  NestFacts facts{.words = kWordsOfSizes};
  absl::btree_set<BufferId> touched, written;
  for (int op : group.ops) {
    const Accesses& accesses = index.Of(op);
    touched.insert(accesses.reads.begin(), accesses.reads.end());
    touched.insert(accesses.writes.begin(), accesses.writes.end());
    written.insert(accesses.writes.begin(), accesses.writes.end());
  }
  for (BufferId id : touched) {
    facts.bytes += BufferBytes(program.buffers[id]);
    facts.words += group.nest.local.count(id) == 0 ? 1 : 0;
  }
  for (BufferId id : written) {
    const BufferInfo& buffer = program.buffers[id];
    const bool has_memory = buffer.kind == BufferKind::kInput || buffer.returned;
    if (!has_memory && group.nest.local.count(id) == 0) facts.results += BufferBytes(buffer);
  }
  if (device.equal_nests_share) {
    facts.operations = OperationsText(program, group.nest);
    if (HasAnySize(group.nest)) facts.structure = StructureText(program, group.nest);
  }
  return facts;
}

// So many steps back a nest looks for a launch. It costs time for each, and what would run so far
// early is rarely of any use there.
constexpr int kMostStepsBack = 1024;

// A launch that is being filled.
struct Launch {
  size_t words = 0;
  int64_t bytes = 0;                  // of its largest nest
  std::string structure, operations;  // of all its nests, or ""
};

bool MayTake(const Launch& launch, size_t nests, const NestFacts& nest,
             const DeviceTraits& device) {
  if (nests == 0 || launch.words + nest.words > device.most_words) return false;
  const bool small = std::max(launch.bytes, nest.bytes) <= device.large_nest_bytes;
  const bool free = small || nest.results == 0;
  if (!nest.structure.empty() && launch.structure == nest.structure) return free;
  const bool same = !nest.operations.empty() && launch.operations == nest.operations;
  return (same ? free : small) && nests < device.most_nests;
}

// The step, from `first` on, whose kernel takes the nest; -1: none does. What leaves little in
// memory joins the first, where more of its kind may share a function, other nests the last: their
// results are there no longer than they must, and still in a cache when they are read.
int FindLaunch(const Schedule& schedule, const std::vector<Launch>& launches, int first,
               const NestFacts& nest, const DeviceTraits& device) {
  const auto takes = [&](int step) {
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[step].work);
    return kernel != nullptr && MayTake(launches[step], kernel->nests.size(), nest, device);
  };
  const auto steps = std::views::iota(first, static_cast<int>(schedule.steps.size()));
  if (nest.results <= device.small_result_bytes) {
    const auto found = std::ranges::find_if(steps, takes);
    return found == steps.end() ? -1 : *found;
  }
  const auto backwards = steps | std::views::reverse;
  const auto found = std::ranges::find_if(backwards, takes);
  return found == backwards.end() ? -1 : *found;
}

// Per group: what nests that run earlier than they must may leave in memory while it runs.
// Arguments that the call may release count for nothing here.
std::vector<int64_t> MostBytesEarly(const Program& program, const AccessIndex& accesses,
                                    const std::vector<Group>& groups, const DeviceTraits& device) {
  std::vector<int64_t> most = LiveBytes(program, accesses, groups);
  const int64_t peak = most.empty() ? 0 : *std::max_element(most.begin(), most.end());
  for (int64_t& bytes : most) {
    bytes = std::max(device.least_bytes_early, std::min(peak - bytes, device.most_bytes_early));
  }
  return most;
}

}  // namespace

Schedule MakeSchedule(const Program& program, const DeviceTraits& device) {
  const AccessIndex accesses(program);
  const std::vector<OperationSet> predecessors = Predecessors(program, accesses);
  FusionResult fused = Fuse(program, accesses, predecessors, device);
  Schedule schedule;
  schedule.notes = std::move(fused.notes);
  schedule.work = fused.work;
  std::map<int, int> step_of;  // operation -> step
  // A kernel may take a nest when everything that the nest needs has run in earlier steps, and when
  // what runs early leaves no more in memory than it may.
  const std::vector<int64_t> most_early = MostBytesEarly(program, accesses, fused.groups, device);
  std::vector<Launch> launches;  // by step
  std::vector<int64_t>
      early_room;  // per step: bytes that may still be there earlier than they must
  std::vector<int> step_of_group;
  for (Group& group : fused.groups) {
    int after = -1;
    for (int op : group.ops) {
      for (int p : predecessors[op]) {
        if (auto it = step_of.find(p); it != step_of.end()) after = std::max(after, it->second);
      }
    }
    int step = -1;
    NestFacts facts;
    if (!group.is_extern) {
      facts = FactsOf(program, accesses, group, device);
      int first = static_cast<int>(schedule.steps.size());
      const int least = std::max(after + 1, first - kMostStepsBack);
      while (first > least && early_room[first - 1] >= facts.results) --first;
      step = FindLaunch(schedule, launches, first, facts, device);
    }
    if (step >= 0) {
      for (size_t s = step; s < early_room.size(); ++s) early_room[s] -= facts.results;
    } else {
      step = static_cast<int>(schedule.steps.size());
      early_room.push_back(most_early[step_of_group.size()]);
      launches.push_back({.structure = facts.structure, .operations = facts.operations});
      if (group.is_extern) {
        schedule.steps.push_back({group.ops[0]});
      } else {
        schedule.steps.push_back({Kernel{}});
      }
    }
    if (!group.is_extern) {
      std::get<Kernel>(schedule.steps[step].work).nests.push_back(std::move(group.nest));
      Launch& launch = launches[step];
      launch.words += facts.words;
      launch.bytes = std::max(launch.bytes, facts.bytes);
      if (launch.structure != facts.structure) launch.structure.clear();
      if (launch.operations != facts.operations) launch.operations.clear();
    }
    for (int op : group.ops) step_of[op] = step;
    step_of_group.push_back(step);
  }
  for (Rejection& rejection : fused.rejections) {
    rejection.a = step_of_group[rejection.a];
    rejection.b = step_of_group[rejection.b];
    if (rejection.a != rejection.b) schedule.rejections.push_back(std::move(rejection));
  }
  return schedule;
}

}  // namespace tensord::compiler
