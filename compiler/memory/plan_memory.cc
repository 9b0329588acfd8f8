#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "compiler/memory/in_place.h"
#include "compiler/memory/segments.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kAlignment = 64;

Expr AlignedBytes(const BufferInfo& buffer) {
  const Expr bytes = StorageElements(buffer.sizes, buffer.strides) * ItemSize(buffer.dtype);
  return sym::CeilDiv(bytes, Expr(kAlignment)) * kAlignment;
}

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
  std::vector<int64_t> bytes(steps);
  const auto add = [&](BufferId id, int first, int last) {
    const int64_t size = HintedBytes(program.buffers[id]);
    for (int step = first; step <= last; ++step) bytes[step] += size;
  };
  std::set<BufferId> changed;
  for (const std::set<BufferId>& buffers : written) changed.insert(buffers.begin(), buffers.end());
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    const Lifetime& life = lifetimes[id];
    switch (plan.places[id].kind) {
      case Place::kInput: {
        const auto number = static_cast<size_t>(program.buffers[id].number);
        if (number < rules.is_parameter.size() && rules.is_parameter[number]) break;
        const bool stays = returned[id] || changed.count(id) > 0;
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
  return bytes;
}

// Gives offsets to `ids`, which come in order of decreasing size; returns the end.
Expr Pack(const Program& program, const std::vector<Lifetime>& lifetimes,
          const std::vector<BufferId>& ids, MemoryPlan* plan) {
  struct Placed {
    BufferId id;
    int64_t begin, end;
  };
  std::vector<Placed> placed;
  std::vector<BufferId> symbolic;
  int64_t total = 0;
  for (BufferId id : ids) {
    const auto size = AlignedBytes(program.buffers[id]).AsConstant();
    if (!size) {
      symbolic.push_back(id);
      continue;
    }
    // Busy intervals of buffers whose lifetimes overlap, by offset.
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (const Placed& other : placed) {
      if (lifetimes[other.id].Meets(lifetimes[id])) busy.emplace_back(other.begin, other.end);
    }
    std::sort(busy.begin(), busy.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : busy) {
      if (offset + *size <= begin) break;
      offset = std::max(offset, end);
    }
    plan->places[id].offset = Expr(offset);
    total = std::max(total, offset + *size);
    placed.push_back({id, offset, offset + *size});
  }
  // Symbolic sizes: equal expressions with lifetimes apart share a slot, others get their own.
  struct Slot {
    Expr size, offset;
    std::vector<BufferId> tenants;
  };
  std::vector<Slot> slots;
  Expr end(total);
  for (BufferId id : symbolic) {
    const Expr size = AlignedBytes(program.buffers[id]);
    Slot* home = nullptr;
    for (Slot& slot : slots) {
      if (!(slot.size == size)) continue;
      const bool free = std::none_of(slot.tenants.begin(), slot.tenants.end(), [&](BufferId other) {
        return lifetimes[other].Meets(lifetimes[id]);
      });
      if (free) {
        home = &slot;
        break;
      }
    }
    if (home == nullptr) {
      slots.push_back({size, end, {}});
      end += size;
      home = &slots.back();
    }
    home->tenants.push_back(id);
    plan->places[id].offset = home->offset;
  }
  return end;
}

Expr LargestScratch(const std::vector<KernelSource>& kernels) {
  Expr scratch(0);
  for (const KernelSource& kernel : kernels) {
    if (!kernel.functions.empty() && kernel.functions[0].cuda) {
      scratch = sym::Max(scratch, kernel.scratch_bytes);
    }
  }
  return sym::CeilDiv(scratch, Expr(kAlignment)) * kAlignment;
}

Expr CountersBytes(const std::vector<KernelSource>& kernels) {
  Expr counters(0);
  for (const KernelSource& kernel : kernels) counters = sym::Max(counters, kernel.counters);
  constexpr int64_t kCounterBytes = 4, kOfAlignment = kAlignment / kCounterBytes;
  return sym::CeilDiv(counters, Expr(kOfAlignment)) * kAlignment;
}

}  // namespace

MemoryRules RulesOf(const v1::Target& target, const Graph& graph) {
  MemoryRules rules{.segments = target.has_cuda()};
  for (const GraphInput& input : graph.inputs) rules.is_parameter.push_back(input.is_parameter);
  return rules;
}

MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<KernelSource>& kernels, const MemoryRules& rules) {
  const size_t count = program.buffers.size();
  MemoryPlan plan;
  plan.places.resize(count);
  plan.last_use.assign(count, -1);
  const auto touched = TouchedBuffers(program, schedule, kernels);
  std::vector<Lifetime> lifetimes = LifetimesOf(program, touched);
  const std::vector<bool> returned = ReturnedBuffers(program);
  std::vector<BufferId> in_workspace = FindPlaces(program, lifetimes, returned, &plan);
  // A result that takes over its operand's memory lengthens the operand's life and has no place of
  // its own.
  std::vector<bool> may_share(count, false);
  for (BufferId id : in_workspace) may_share[id] = true;
  const auto shared = FindInPlace(program, schedule, lifetimes, may_share);
  const auto home_of = [&shared](BufferId id) {
    for (auto it = shared.find(id); it != shared.end(); it = shared.find(id)) id = it->second;
    return id;
  };
  for (const auto& [result, operand] : shared) {
    Lifetime& home = lifetimes[home_of(operand)];
    home.last = std::max(home.last, lifetimes[result].last);
  }
  std::erase_if(in_workspace, [&](BufferId id) { return shared.count(id) != 0; });
  std::stable_sort(in_workspace.begin(), in_workspace.end(), [&](BufferId a, BufferId b) {
    return HintedBytes(program.buffers[a]) > HintedBytes(program.buffers[b]);
  });
  std::vector<int> cuts;
  if (rules.segments) {
    std::vector<Tenant> tenants;
    for (BufferId id : in_workspace) {
      tenants.push_back({lifetimes[id], HintedBytes(program.buffers[id])});
    }
    cuts =
        FindSegments(tenants, OtherBytes(program, rules, lifetimes, returned,
                                         TouchedBuffers(program, schedule, kernels, true), plan));
  }
  std::vector<std::vector<BufferId>> of_segment(cuts.size() + 1);
  std::vector<BufferId> common;
  for (BufferId id : in_workspace) {
    const int segment = cuts.empty() ? -1 : SegmentOf(lifetimes[id], cuts);
    const bool constant = AlignedBytes(program.buffers[id]).IsConstant();
    (segment < 0 || !constant ? common : of_segment[segment]).push_back(id);
  }
  plan.scratch_offset = Pack(program, lifetimes, common, &plan);
  plan.counters_offset = plan.scratch_offset + LargestScratch(kernels);
  plan.counters_bytes = CountersBytes(kernels);
  plan.workspace_bytes = plan.counters_offset + plan.counters_bytes;
  // Blocks of different segments are never there together.
  int64_t largest = 0;
  for (const std::vector<BufferId>& ids : of_segment) {
    if (ids.empty()) continue;
    const int64_t bytes = *Pack(program, lifetimes, ids, &plan).AsConstant();
    for (BufferId id : ids) plan.places[id].block = static_cast<int>(plan.blocks.size());
    plan.blocks.push_back({bytes, plan.workspace_bytes});
    largest = std::max(largest, bytes);
  }
  plan.blocks_bytes = Expr(largest);
  for (const auto& [result, operand] : shared) plan.places[result] = plan.places[home_of(operand)];
  return plan;
}

void VerifyMemory(const Program& program, const Schedule& schedule,
                  const std::vector<KernelSource>& kernels, const MemoryPlan& plan) {
  const auto touched = TouchedBuffers(program, schedule, kernels);
  std::map<BufferId, Lifetime> lifetimes;
  for (int step = 0; step < static_cast<int>(touched.size()); ++step) {
    for (BufferId id : touched[step]) {
      if (plan.places[id].kind != Place::kWorkspace) continue;
      Lifetime& lifetime = lifetimes[id];
      if (lifetime.first < 0) lifetime.first = step;
      lifetime.last = step;
    }
  }
  for (const auto& [a, x] : lifetimes) {
    for (const auto& [b, y] : lifetimes) {
      if (b <= a || x.last < y.first || y.last < x.first) continue;
      const int64_t at = sym::Hint(plan.places[a].offset),
                    end = at + sym::Hint(AlignedBytes(program.buffers[a]));
      const int64_t other = sym::Hint(plan.places[b].offset),
                    other_end = other + sym::Hint(AlignedBytes(program.buffers[b]));
      if (end <= other || other_end <= at || plan.places[a].block != plan.places[b].block) continue;
      TENSORD_CHECK(at == other && (x.last == y.first || y.last == x.first),
                    "two live buffers share memory");
    }
  }
}

}  // namespace tensord::compiler
