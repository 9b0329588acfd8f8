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
  // Bytes of the call's results that it makes, and by how much they are more than what it is the
  // last to read. Zeros where that is more: made early they take less. A weight's gradient that is
  // widened is twice as large, while all that forward has saved may still be there.
  int64_t outputs = 0, growth = 0;
};

// Of a group that makes nothing but results of the call.
void NoteGrowth(const Program& program, const AccessIndex& index, const Group& group,
                const absl::btree_set<BufferId>& touched, const std::vector<bool>& released,
                NestFacts* facts) {
  int64_t goes = 0;
  for (BufferId id : touched) {
    if (group.nest.local.count(id) != 0) continue;
    const BufferInfo& buffer = program.buffers[id];
    const std::vector<int>& users = index.Users(id);
    const bool is_first = std::ranges::binary_search(group.ops, users.front());
    if (buffer.kind != BufferKind::kInput && is_first) {
      facts->outputs += BufferBytes(buffer);
    } else if (users.back() <= group.ops.back() && IsReleased(program, index, released, id)) {
      goes += BufferBytes(buffer);
    }
  }
  facts->growth = std::max(facts->outputs - goes, int64_t{0});
  if (facts->growth == 0) facts->outputs = 0;
}

NestFacts FactsOf(const Program& program, const AccessIndex& index, const Group& group,
                  const DeviceTraits& device, const std::vector<bool>& released) {
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
  if (facts.results == 0) NoteGrowth(program, index, group, touched, released, &facts);
  if (device.equal_nests_share) {
    facts.operations = OperationsText(program, group.nest);
    if (HasAnySize(group.nest)) facts.structure = StructureText(program, group.nest);
  }
  return facts;
}

// So many steps back a nest looks for a launch. It costs time for each, and what would run so far
// early is rarely of any use there.
constexpr int kMostStepsBack = 1024;

// What is counted is off by so much, in bytes, or by a part of the peak: packing, libraries' own
// memory, views of one memory that are counted one by one.
constexpr int64_t kMargin = int64_t{16} << 20, kLeastOfMargin = 64;

// A launch that is being filled, or a call.
struct Launch {
  // Bytes that nests which run earlier than they must may yet leave in memory: as results for
  // others, and as growth.
  int64_t early_room = 0, growth_room = 0;
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
// results are there no longer than they must, and still in a cache when they are read. While it
// runs, its results are there beside what goes for them.
int FindLaunch(const Schedule& schedule, const std::vector<Launch>& launches, int first,
               const NestFacts& nest, const DeviceTraits& device) {
  const auto takes = [&](int step) {
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[step].work);
    return kernel != nullptr && launches[step].growth_room >= nest.outputs &&
           MayTake(launches[step], kernel->nests.size(), nest, device);
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

// Per group, from what is in memory while it runs: what may come on top of that where the peak, but
// for a margin, is above it, `most` at most, and `least` at any rate.
std::vector<int64_t> RoomBeside(std::vector<int64_t> live, int64_t margin, int64_t least,
                                int64_t most) {
  int64_t peak = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  peak -= std::min(margin, peak / kLeastOfMargin);
  for (int64_t& bytes : live) bytes = std::max(least, std::min(peak - bytes, most));
  return live;
}

}  // namespace

Schedule MakeSchedule(const Program& program, const DeviceTraits& device,
                      const std::vector<bool>& released) {
  const AccessIndex accesses(program);
  const std::vector<OperationSet> predecessors = Predecessors(program, accesses);
  FusionResult fused = Fuse(program, accesses, predecessors, device);
  Schedule schedule;
  schedule.notes = std::move(fused.notes);
  schedule.work = fused.work;
  std::map<int, int> step_of;  // operation -> step
  // A kernel may take a nest when everything that the nest needs has run in earlier steps, and when
  // what runs early leaves no more in memory than it may. What the call is given counts for growth
  // alone: where it is released early, all that is computed early would be late. Nor is a margin
  // wanted where nothing is released: what the call makes is exact.
  const std::vector<int64_t> early_room =
      RoomBeside(LiveBytes(program, accesses, fused.groups), 0, device.least_bytes_early,
                 device.most_bytes_early);
  const int64_t margin = std::ranges::count(released, true) > 0 ? kMargin : 0;
  const std::vector<int64_t> growth_room =
      RoomBeside(LiveBytes(program, accesses, fused.groups, released), margin,
                 device.least_bytes_early, INT64_MAX);
  std::vector<Launch> launches;  // by step
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
      facts = FactsOf(program, accesses, group, device, released);
      int first = static_cast<int>(schedule.steps.size());
      const int least = std::max(after + 1, first - kMostStepsBack);
      while (first > least && launches[first - 1].early_room >= facts.results &&
             launches[first - 1].growth_room >= facts.growth) {
        --first;
      }
      step = FindLaunch(schedule, launches, first, facts, device);
    }
    if (step >= 0) {
      launches[step].growth_room -= facts.outputs - facts.growth;
      for (size_t s = step; s < launches.size(); ++s) {
        launches[s].early_room -= facts.results;
        launches[s].growth_room -= facts.growth;
      }
    } else {
      step = static_cast<int>(schedule.steps.size());
      const size_t g = step_of_group.size();
      launches.push_back({.early_room = early_room[g],
                          .growth_room = growth_room[g],
                          .structure = facts.structure,
                          .operations = facts.operations});
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

const ExternOp* AttentionOf(const Program& program, const ScheduledStep& step) {
  const int* call = std::get_if<int>(&step.work);
  if (call == nullptr) return nullptr;
  const auto& op = std::get<ExternOp>(program.operations[*call]);
  return op.attention != nullptr ? &op : nullptr;
}

}  // namespace tensord::compiler
