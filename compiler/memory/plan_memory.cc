// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "compiler/memory/in_place.h"
#include "compiler/memory/region.h"
#include "compiler/memory/segments.h"
#include "compiler/memory/workspace.h"
#include "compiler/memory/workspace_bytes.h"
#include "compiler/schedule/library_scratch.h"

namespace tensord::compiler {
namespace {

int64_t HintedBytes(const BufferInfo& buffer) { return sym::Hint(AlignedBytes(buffer)); }

// The kinds of all places; returns the buffers of the workspace.
std::vector<BufferId> FindPlaces(const Program& program, const std::vector<Lifetime>& lifetimes,
                                 const std::vector<bool>& returned, MemoryPlan* plan) {
  std::vector<BufferId> in_workspace;
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    Place& place = plan->places[id];
    if (!returned[id]) plan->last_use[id] = lifetimes[id].last;
    switch (program.buffers[id].kind) {
      case BufferKind::kInput:
        place.kind = Place::kInput;
        break;
      case BufferKind::kConstant:
        place.kind = Place::kConstant;
        break;
      case BufferKind::kExternResult:
        if (lifetimes[id].first >= 0) place.kind = Place::kExtern;
        break;
      case BufferKind::kComputed:
        if (returned[id]) {
          place.kind = Place::kOwned;
        } else if (lifetimes[id].first >= 0) {
          place.kind = Place::kWorkspace;
          in_workspace.push_back(id);
        }
        break;
    }
  }
  return in_workspace;
}

// The bytes of all memory but the workspace, by step.
std::vector<int64_t> OtherBytes(const Program& program, const Schedule& schedule,
                                const MemoryRules& rules, const std::vector<Lifetime>& lifetimes,
                                const std::vector<bool>& returned,
                                const std::vector<std::set<BufferId>>& written,
                                const MemoryPlan& plan) {
  const int steps = static_cast<int>(written.size());
  std::vector<int64_t> bytes(steps + 1);  // changes, until they are summed up
  const auto add = [&](BufferId id, int first, int last) {
    if (last < first) return;
    const int64_t size = HintedBytes(program.buffers[id]);
    bytes[first] += size;
    bytes[last + 1] -= size;
  };
  std::set<BufferId> changed;
  for (const std::set<BufferId>& buffers : written) changed.insert(buffers.begin(), buffers.end());
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    const Lifetime& life = lifetimes[id];
    switch (plan.places[id].kind) {
      case Place::kInput: {
        if (rules.IsParameter(program.buffers[id])) break;
        const bool stays = !rules.releases_inputs || returned[id] || changed.count(id) > 0;
        add(id, 0, stays ? steps - 1 : life.last);
        break;
      }
      case Place::kOwned:
      case Place::kExtern:
        if (life.first >= 0) add(id, life.first, returned[id] ? steps - 1 : life.last);
        break;
      case Place::kNone:
      case Place::kConstant:
      case Place::kWorkspace:
        break;
    }
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  for (int step = 0; step < steps; ++step) {
    if (const int* op = std::get_if<int>(&schedule.steps[step].work)) {
      bytes[step] += LibraryScratch(std::get<ExternOp>(program.operations[*op]));
    }
  }
  return bytes;
}

// The workspace of a call that is cut into segments. `others`: as Workspace's.
Workspace DivideCall(const Program& program, const std::vector<Lifetime>& lifetimes,
                     const std::vector<BufferId>& ids, const std::vector<Scratch>& scratch,
                     std::vector<int64_t> others) {
  const Lifetime whole{0, static_cast<int>(others.size()) - 1};
  std::vector<Tenant> tenants;
  std::vector<BufferId> owners;  // of the tenants; -1: scratch
  int64_t symbolic = 0;          // bytes, as far as hints tell
  const auto add = [&](BufferId id, const Lifetime& life, const Expr& bytes) {
    if (bytes.IsConstant()) {
      tenants.push_back({life, sym::Hint(bytes)});
      owners.push_back(id);
    } else {  // in the common part, whatever the segments
      symbolic += sym::Hint(bytes);
    }
  };
  for (BufferId id : ids) add(id, lifetimes[id], AlignedBytes(program.buffers[id]));
  for (const Scratch& s : scratch) add(-1, {s.step, s.step}, s.bytes);
  AddDuring(whole, symbolic, &others);
  Segments segments = FindSegments(tenants, others);
  std::vector<BufferId> alone;  // buffers all: scratch is of a single step
  for (size_t tenant : segments.alone) alone.push_back(owners[tenant]);
  return Workspace(std::move(segments.cuts), alone, std::move(others));
}

// Gives buffers, in this order, and then scratch their places.
void Pack(const Program& program, const std::vector<Lifetime>& lifetimes,
          const std::vector<BufferId>& ids, const std::vector<Scratch>& scratch,
          Workspace* workspace, MemoryPlan* plan) {
  std::vector<BufferId> symbolic;
  for (BufferId id : ids) {
    if (const auto bytes = AlignedBytes(program.buffers[id]).AsConstant()) {
      plan->places[id] = workspace->Add(id, lifetimes[id], *bytes);
    } else {
      symbolic.push_back(id);
    }
  }
  const bool all_constant = std::all_of(scratch.begin(), scratch.end(),
                                        [](const Scratch& s) { return s.bytes.IsConstant(); });
  std::vector<Scratch> symbolic_scratch, left;
  for (const Scratch& s : scratch) {
    const auto bytes = s.bytes.AsConstant();
    if (!bytes) {
      symbolic_scratch.push_back(s);
    } else if (const auto place = workspace->AddScratch(s.step, *bytes, all_constant)) {
      plan->scratch[s.step] = *place;
    } else {
      left.push_back(s);
    }
  }
  Slots slots(Expr(workspace->common_bytes()));
  for (BufferId id : symbolic) {
    plan->places[id].offset = slots.Add(lifetimes[id], AlignedBytes(program.buffers[id]));
  }
  for (const Scratch& s : symbolic_scratch) {
    if (const auto offset = slots.AddInside({s.step, s.step}, s.bytes)) {
      plan->scratch[s.step] = {Place::kWorkspace, *offset};
    } else {
      left.push_back(s);
    }
  }
  // What no slot surely has room for shares the end.
  std::set<Expr> sizes;
  for (const Scratch& s : left) {
    plan->scratch[s.step] = {Place::kWorkspace, slots.end()};
    sizes.insert(s.bytes);
  }
  Expr most(0);
  for (const Expr& size : sizes) most = sym::Max(most, size);
  plan->workspace_bytes = slots.end() + most;
}

// Packs by decreasing size, and by decreasing size times length of life: the latter places what
// lives long before the larger ones that come and go meanwhile. Neither is better for all programs:
// the plan of the lower peak stays, the first of equals.
void PackBest(const Program& program, const std::vector<Lifetime>& lifetimes,
              const std::vector<BufferId>& ids, const std::vector<Scratch>& scratch,
              Workspace* workspace, MemoryPlan* plan) {
  struct Packed {
    Workspace workspace;
    MemoryPlan plan;

    int64_t Peak() const { return sym::Hint(plan.workspace_bytes) + workspace.Peak(); }
  };
  const auto pack = [&](bool by_life) {
    std::vector<std::pair<double, BufferId>> order;
    for (BufferId id : ids) {
      const Expr bytes = AlignedBytes(program.buffers[id]);
      const Lifetime& life = lifetimes[id];
      // Slots of symbolic sizes are the fewest in the order of sizes.
      const int steps = by_life && bytes.IsConstant() ? life.last - life.first + 1 : 1;
      order.emplace_back(static_cast<double>(sym::Hint(bytes)) * steps, id);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<BufferId> ordered;
    for (const auto& [weight, id] : order) ordered.push_back(id);
    Packed packed{*workspace, *plan};
    Pack(program, lifetimes, ordered, scratch, &packed.workspace, &packed.plan);
    return packed;
  };
  Packed by_size = pack(false), by_life = pack(true);
  Packed& best = by_life.Peak() < by_size.Peak() ? by_life : by_size;
  *workspace = std::move(best.workspace);
  *plan = std::move(best.plan);
}

// Results in the memory of a donated input, and from the first of them to the last.
struct DonatedBlock {
  std::vector<BufferId> tenants;
  Lifetime life;
};

// Numbers the blocks that are there, and says where they lie if there is one allocation for all.
void ListBlocks(const Program& program, const std::vector<Region>& blocks,
                const std::map<BufferId, DonatedBlock>& donated, MemoryPlan* plan) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return blocks[a].end() > blocks[b].end(); });
  std::vector<int> numbers(blocks.size(), -1);
  Region all;
  const auto list = [&](const Lifetime& life, int64_t bytes, int donor) {
    plan->blocks.push_back({bytes, plan->workspace_bytes + all.Add(life, bytes), donor});
    return static_cast<int>(plan->blocks.size()) - 1;
  };
  for (const size_t i : by_size) {
    if (blocks[i].end() == 0) break;
    numbers[i] = list(blocks[i].life(), blocks[i].end(), MemoryBlock::kNoDonor);
  }
  for (std::vector<Place>* places : {&plan->places, &plan->scratch}) {
    for (Place& place : *places) {
      if (place.block >= 0) place.block = numbers[place.block];
    }
  }
  for (const auto& [id, block] : donated) {
    const BufferInfo& input = program.buffers[id];
    const int number = list(block.life, HintedBytes(input), input.number);
    for (BufferId tenant : block.tenants) plan->places[tenant] = {Place::kWorkspace, 0, number};
  }
  plan->blocks_bytes = Expr(all.end());
}

// Per buffer: the one whose place it has, through any number of results in their operands' places;
// itself where that is none.
std::vector<BufferId> HomesOf(size_t buffers, const std::map<BufferId, BufferId>& shared) {
  std::vector<BufferId> homes(buffers);
  std::iota(homes.begin(), homes.end(), 0);
  for (const auto& [result, operand] : shared) homes[result] = operand;
  for (const auto& [result, operand] : shared) {
    BufferId home = operand;
    while (homes[home] != home) home = homes[home];
    for (BufferId id = result; id != home;) id = std::exchange(homes[id], home);
  }
  return homes;
}

Expr CountersBytes(const std::vector<LaunchInterface>& launches) {
  Expr counters(0);
  for (const LaunchInterface& launch : launches) counters = sym::Max(counters, launch.counters);
  constexpr int64_t kCounterBytes = 4, kOfAlignment = kMemoryAlignment / kCounterBytes;
  return sym::CeilDiv(counters, Expr(kOfAlignment)) * kMemoryAlignment;
}

// All that is the same for every plan of a call.
class Planner {
 public:
  Planner(const Program& program, const Schedule& schedule,
          const std::vector<LaunchInterface>& launches, const MemoryRules& rules)
      : program_(program),
        schedule_(schedule),
        launches_(launches),
        rules_(rules),
        lifetimes_(LifetimesOf(program, TouchedBuffers(program, schedule, launches))),
        returned_(ReturnedBuffers(program)),
        written_(TouchedBuffers(program, schedule, launches, /*only_writes=*/true)),
        scratch_(ScratchOf(launches)) {}

  // The large ones of those that the call may overwrite.
  std::vector<bool> DonatedInputs() const {
    std::vector<bool> donated(program_.buffers.size());
    for (BufferId id = 0; id < static_cast<BufferId>(donated.size()); ++id) {
      const BufferInfo& buffer = program_.buffers[id];
      if (buffer.kind != BufferKind::kInput || lifetimes_[id].first < 0 || returned_[id]) continue;
      const auto bytes = AlignedBytes(buffer).AsConstant();
      donated[id] = bytes && *bytes >= SegmentCosts().least_apart && rules_.IsDonated(buffer);
    }
    for (const std::set<BufferId>& buffers : written_) {
      for (BufferId id : buffers) donated[id] = false;
    }
    return donated;
  }

  // `donated`: inputs in whose memory results may be.
  MemoryPlan Plan(const std::vector<bool>& donated) const {
    const size_t count = program_.buffers.size();
    MemoryPlan plan;
    plan.places.resize(count);
    plan.scratch.resize(launches_.size());
    plan.last_use.assign(count, -1);
    std::vector<Lifetime> lifetimes = lifetimes_;
    std::vector<BufferId> in_workspace = FindPlaces(program_, lifetimes, returned_, &plan);
    // A result that takes over its operand's memory lengthens the operand's life and has no place
    // of its own.
    std::vector<bool> may_share(count, false);
    for (BufferId id : in_workspace) may_share[id] = true;
    const auto shared = FindInPlace(program_, schedule_, lifetimes, may_share, donated);
    const std::vector<BufferId> home = HomesOf(count, shared);
    for (const auto& [result, operand] : shared) {
      Lifetime& life = lifetimes[home[operand]];
      life.last = std::max(life.last, lifetimes[result].last);
    }
    std::erase_if(in_workspace, [&](BufferId id) { return shared.count(id) != 0; });
    Workspace workspace({}, {}, {});
    if (rules_.segments) {
      workspace =
          DivideCall(program_, lifetimes, in_workspace, scratch_,
                     OtherBytes(program_, schedule_, rules_, lifetimes, returned_, written_, plan));
    }
    PackBest(program_, lifetimes, in_workspace, scratch_, &workspace, &plan);
    plan.counters_offset = plan.workspace_bytes;
    plan.counters_bytes = CountersBytes(launches_);
    plan.workspace_bytes += plan.counters_bytes;
    if (rules_.segments && plan.workspace_bytes.IsConstant()) {
      plan.peak_bytes = sym::Hint(plan.workspace_bytes) + workspace.Peak();
      plan.spare_bytes = workspace.Spare();
    }
    ListBlocks(program_, workspace.blocks(), DonatedBlocks(shared, home), &plan);
    for (const auto& [result, operand] : shared) {
      if (donated[home[operand]]) continue;
      plan.places[result] = plan.places[home[operand]];
    }
    return plan;
  }

 private:
  // The results in the memory of each donated input, with their common life.
  std::map<BufferId, DonatedBlock> DonatedBlocks(const std::map<BufferId, BufferId>& shared,
                                                 const std::vector<BufferId>& home) const {
    std::map<BufferId, DonatedBlock> blocks;
    for (const auto& [result, operand] : shared) {
      const BufferId input = home[operand];
      if (program_.buffers[input].kind != BufferKind::kInput) continue;
      DonatedBlock& block = blocks[input];
      const Lifetime& life = lifetimes_[result];
      block.life = block.tenants.empty() ? life : block.life.With(life);
      block.tenants.push_back(result);
    }
    return blocks;
  }

  const Program& program_;
  const Schedule& schedule_;
  const std::vector<LaunchInterface>& launches_;
  const MemoryRules& rules_;
  const std::vector<Lifetime> lifetimes_;
  const std::vector<bool> returned_;               // per buffer
  const std::vector<std::set<BufferId>> written_;  // by step
  const std::vector<Scratch> scratch_;
};

}  // namespace

MemoryRules RulesOf(const v1::Target& target, const v1::CompileOptions& options,
                    const Graph& graph) {
  // Captured programs are lent all they need, blocks included, for good; but for backward ones,
  // whose blocks come and go.
  const bool lent = options.mode() == v1::MODE_REDUCE_OVERHEAD && !options.releases_inputs();
  MemoryRules rules{.segments = target.has_cuda() && !lent,
                    .releases_inputs = options.releases_inputs()};
  for (const GraphInput& input : graph.inputs) {
    rules.is_parameter.push_back(input.is_parameter);
    rules.is_donated.push_back(input.is_donated);
  }
  return rules;
}

MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<LaunchInterface>& launches, const MemoryRules& rules) {
  const Planner planner(program, schedule, launches, rules);
  const std::vector<bool> none(program.buffers.size());
  MemoryPlan plan = planner.Plan(none);
  if (plan.peak_bytes == 0) return plan;
  const std::vector<bool> donated = planner.DonatedInputs();
  if (donated == none) return plan;
  MemoryPlan with = planner.Plan(donated);
  return with.peak_bytes < plan.peak_bytes ? with : plan;
}

}  // namespace tensord::compiler
