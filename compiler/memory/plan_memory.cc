#include "compiler/memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "compiler/memory/in_place.h"
#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kAlignment = 64;

Expr AlignedBytes(const BufferInfo& buffer) {
  const Expr bytes = StorageElements(buffer.sizes, buffer.strides) * ItemSize(buffer.dtype);
  return sym::CeilDiv(bytes, Expr(kAlignment)) * kAlignment;
}

// The buffers that each step touches in memory.
std::vector<std::set<BufferId>> TouchedBuffers(const Program& program, const Schedule& schedule,
                                               const std::vector<KernelSource>& kernels) {
  std::vector<std::set<BufferId>> touched(schedule.steps.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    if (const int* op = std::get_if<int>(&schedule.steps[i].work)) {
      const Accesses accesses = AccessesOf(program.operations[*op]);
      touched[i] = accesses.reads;
      touched[i].insert(accesses.writes.begin(), accesses.writes.end());
    } else {
      touched[i].insert(kernels[i].buffers.begin(), kernels[i].buffers.end());
    }
  }
  return touched;
}

}  // namespace

MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<KernelSource>& kernels) {
  const size_t count = program.buffers.size();
  MemoryPlan plan;
  plan.places.resize(count);
  plan.last_use.assign(count, -1);
  plan.workspace_bytes = Expr(0);
  std::vector<Lifetime> lifetimes(count);
  const auto touched = TouchedBuffers(program, schedule, kernels);
  for (int step = 0; step < static_cast<int>(touched.size()); ++step) {
    for (BufferId id : touched[step]) {
      if (lifetimes[id].first < 0) lifetimes[id].first = step;
      lifetimes[id].last = step;
    }
  }
  std::vector<bool> returned(count, false);
  for (size_t i = 0; i < count; ++i) returned[i] = program.buffers[i].returned;
  for (const ProgramOutput& output : program.outputs) {
    if (output.kind == ProgramOutput::kTensor) returned[output.view.buffer] = true;
  }
  std::vector<BufferId> in_workspace;
  for (BufferId id = 0; id < static_cast<BufferId>(count); ++id) {
    const BufferInfo& buffer = program.buffers[id];
    Place& place = plan.places[id];
    if (!returned[id]) plan.last_use[id] = lifetimes[id].last;
    switch (buffer.kind) {
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
    return sym::Hint(AlignedBytes(program.buffers[a])) >
           sym::Hint(AlignedBytes(program.buffers[b]));
  });
  std::vector<BufferId> placed;
  std::vector<BufferId> symbolic;
  int64_t total = 0;
  for (BufferId id : in_workspace) {
    const auto size = AlignedBytes(program.buffers[id]).AsConstant();
    if (!size) {
      symbolic.push_back(id);
      continue;
    }
    // Busy intervals of buffers whose lifetimes overlap, by offset.
    std::vector<std::pair<int64_t, int64_t>> busy;
    for (BufferId other : placed) {
      if (lifetimes[other].last < lifetimes[id].first ||
          lifetimes[id].last < lifetimes[other].first) {
        continue;
      }
      const int64_t at = *plan.places[other].offset.AsConstant();
      busy.emplace_back(at, at + *AlignedBytes(program.buffers[other]).AsConstant());
    }
    std::sort(busy.begin(), busy.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : busy) {
      if (offset + *size <= begin) break;
      offset = std::max(offset, end);
    }
    plan.places[id].offset = Expr(offset);
    total = std::max(total, offset + *size);
    placed.push_back(id);
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
      const bool free = std::all_of(slot.tenants.begin(), slot.tenants.end(), [&](BufferId other) {
        return lifetimes[other].last < lifetimes[id].first ||
               lifetimes[id].last < lifetimes[other].first;
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
    plan.places[id].offset = home->offset;
  }
  for (const auto& [result, operand] : shared) {
    plan.places[result].offset = plan.places[home_of(operand)].offset;
  }
  plan.scratch_offset = end;
  Expr scratch(0);
  for (const KernelSource& kernel : kernels) {
    if (!kernel.functions.empty() && kernel.functions[0].cuda) {
      scratch = sym::Max(scratch, kernel.scratch_bytes);
    }
  }
  plan.workspace_bytes = end + scratch;
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
      if (end <= other || other_end <= at) continue;
      TENSORD_CHECK(at == other && (x.last == y.first || y.last == x.first),
                    "two live buffers share memory");
    }
  }
}

}  // namespace tensord::compiler
