// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "compiler/memory/in_place.h"
#include "compiler/memory/range_maximum.h"
#include "compiler/memory/region.h"
#include "compiler/memory/segments.h"
#include "compiler/memory/workspace_bytes.h"

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
std::vector<int64_t> OtherBytes(const Program& program, const MemoryRules& rules,
                                const std::vector<Lifetime>& lifetimes,
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
        const auto number = static_cast<size_t>(program.buffers[id].number);
        if (number < rules.is_parameter.size() && rules.is_parameter[number]) break;
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
  return bytes;
}

// What is there during the whole call, and the blocks of segments and of single buffers; of
// constant sizes.
class Workspace {
 public:
  // `others`: the bytes of all memory but this, by step. `alone`: buffers with a block of their
  // own.
  Workspace(std::vector<int> cuts, const std::vector<BufferId>& alone, std::vector<int64_t> others)
      : cuts_(std::move(cuts)), others_(std::move(others)), blocks_(cuts_.size() + 1) {
    for (BufferId id : alone) {
      alone_[id] = static_cast<int>(blocks_.size());
      blocks_.emplace_back();
    }
  }

  Place Add(BufferId id, const Lifetime& life, int64_t bytes) {
    const auto alone = alone_.find(id);
    if (alone == alone_.end()) return AddTo(HomeOf(life), life, bytes);
    AddDuring(life, bytes, &others_);
    most_others_.reset();
    return AddTo(alone->second, life, bytes);
  }

  // In the common part or in the segment's block, whichever raises the call's peak less. Nowhere if
  // it rises, unless it must.
  std::optional<Place> AddScratch(int step, int64_t bytes, bool must) {
    const Lifetime life{step, step};
    int home = kCommon;
    Cost cost = CostOf(kCommon, life, bytes);
    const int segment = HomeOf(life);
    if (segment != kCommon && PaysBlock(segment, cost)) {
      const Cost apart = CostOf(segment, life, bytes);
      if (apart < cost) {
        cost = apart;
        home = segment;
      }
    }
    if (cost.peak > 0 && !must) return std::nullopt;
    return AddTo(home, life, bytes);
  }

  int64_t common_bytes() const { return common_.end(); }
  // By segment; behind them those of single buffers.
  const std::vector<Region>& blocks() const { return blocks_; }

  // The most that is taken at a time, but for the common part.
  int64_t Peak() const {
    int64_t peak = others_.empty() ? 0 : MostOthers().Largest(0, others_.size());
    for (size_t i = 0; i <= cuts_.size(); ++i) {
      const Region& block = blocks_[i];
      if (block.end() > 0) peak = std::max(peak, MostDuring(block.life(), block.end()));
    }
    return peak;
  }

 private:
  static constexpr int kCommon = -1;

  struct Cost {
    int64_t peak, bytes;  // by how much they grow
    auto operator<=>(const Cost&) const = default;
  };

  int HomeOf(const Lifetime& life) const {
    return cuts_.empty() ? kCommon : SegmentOf(life, cuts_);
  }

  Place AddTo(int home, const Lifetime& life, int64_t bytes) {
    Region& region = home == kCommon ? common_ : blocks_[home];
    return {Place::kWorkspace, Expr(region.Add(life, bytes)), home};
  }

  Cost CostOf(int home, const Lifetime& life, int64_t bytes) const {
    if (home == kCommon) {
      const int64_t growth = common_.Growth(life, bytes);
      return {growth, growth};
    }
    const Region& block = blocks_[home];
    const int64_t growth = block.Growth(life, bytes);
    const Lifetime there = block.end() == 0 ? life : block.life().With(life);
    return {std::max<int64_t>(0, MostDuring(there, block.end() + growth) - Peak()), growth};
  }

  // One that is there anyway costs nothing.
  bool PaysBlock(int segment, const Cost& saved) const {
    return saved.bytes >= (blocks_[segment].end() > 0 ? 1 : SegmentCosts().least_bytes);
  }

  int64_t MostDuring(const Lifetime& life, int64_t block) const {
    return block + MostOthers().Largest(life.first, life.last + 1);
  }

  const RangeMaximum& MostOthers() const {
    if (!most_others_) most_others_.emplace(others_);
    return *most_others_;
  }

  std::vector<int> cuts_;
  std::vector<int64_t> others_;                      // with the blocks of single buffers
  mutable std::optional<RangeMaximum> most_others_;  // of those, once they are asked for
  std::map<BufferId, int> alone_;                    // which block
  Region common_;
  std::vector<Region> blocks_;
};

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

// Numbers the blocks that are there, and says where they lie if there is one allocation for all.
void ListBlocks(const std::vector<Region>& blocks, MemoryPlan* plan) {
  std::vector<size_t> by_size(blocks.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return blocks[a].end() > blocks[b].end(); });
  std::vector<int> numbers(blocks.size(), -1);
  Region all;
  for (const size_t i : by_size) {
    const int64_t bytes = blocks[i].end();
    if (bytes == 0) break;
    numbers[i] = static_cast<int>(plan->blocks.size());
    plan->blocks.push_back({bytes, plan->workspace_bytes + all.Add(blocks[i].life(), bytes)});
  }
  plan->blocks_bytes = Expr(all.end());
  for (std::vector<Place>* places : {&plan->places, &plan->scratch}) {
    for (Place& place : *places) {
      if (place.block >= 0) place.block = numbers[place.block];
    }
  }
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

}  // namespace

MemoryRules RulesOf(const v1::Target& target, const v1::CompileOptions& options,
                    const Graph& graph) {
  MemoryRules rules{.segments = target.has_cuda(), .releases_inputs = options.releases_inputs()};
  for (const GraphInput& input : graph.inputs) rules.is_parameter.push_back(input.is_parameter);
  return rules;
}

MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<LaunchInterface>& launches, const MemoryRules& rules) {
  const size_t count = program.buffers.size();
  MemoryPlan plan;
  plan.places.resize(count);
  plan.scratch.resize(launches.size());
  plan.last_use.assign(count, -1);
  const auto touched = TouchedBuffers(program, schedule, launches);
  std::vector<Lifetime> lifetimes = LifetimesOf(program, touched);
  const std::vector<bool> returned = ReturnedBuffers(program);
  std::vector<BufferId> in_workspace = FindPlaces(program, lifetimes, returned, &plan);
  // A result that takes over its operand's memory lengthens the operand's life and has no place of
  // its own.
  std::vector<bool> may_share(count, false);
  for (BufferId id : in_workspace) may_share[id] = true;
  const auto shared = FindInPlace(program, schedule, lifetimes, may_share);
  const std::vector<BufferId> home = HomesOf(count, shared);
  for (const auto& [result, operand] : shared) {
    Lifetime& life = lifetimes[home[operand]];
    life.last = std::max(life.last, lifetimes[result].last);
  }
  std::erase_if(in_workspace, [&](BufferId id) { return shared.count(id) != 0; });
  const std::vector<Scratch> scratch = ScratchOf(launches);
  Workspace workspace({}, {}, {});
  if (rules.segments) {
    workspace = DivideCall(program, lifetimes, in_workspace, scratch,
                           OtherBytes(program, rules, lifetimes, returned,
                                      TouchedBuffers(program, schedule, launches, true), plan));
  }
  PackBest(program, lifetimes, in_workspace, scratch, &workspace, &plan);
  plan.counters_offset = plan.workspace_bytes;
  plan.counters_bytes = CountersBytes(launches);
  plan.workspace_bytes += plan.counters_bytes;
  if (rules.segments && plan.workspace_bytes.IsConstant()) {
    plan.peak_bytes = sym::Hint(plan.workspace_bytes) + workspace.Peak();
  }
  ListBlocks(workspace.blocks(), &plan);
  for (const auto& [result, operand] : shared) plan.places[result] = plan.places[home[operand]];
  return plan;
}

}  // namespace tensord::compiler
