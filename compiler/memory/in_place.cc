#include "compiler/memory/in_place.h"

#include <optional>
#include <set>

namespace tensord::compiler {
namespace {

// Where a nest writes a buffer: by one member that writes nothing else, element by element.
struct Written {
  size_t member;
  Expr index;
};

std::optional<Written> OnlyStore(const Nest& nest, BufferId buffer) {
  std::optional<Written> found;
  for (size_t m = 0; m < nest.members.size(); ++m) {
    const LoopOp& loops = nest.members[m].loops;
    for (const Store& store : loops.stores) {
      if (store.buffer != buffer) continue;
      if (sym::ContainsKind(store.index, sym::AtomKind::kIndirect)) return std::nullopt;
      if (found || store.mode != StoreMode::kAssign || store.guard >= 0 ||
          loops.stores.size() != 1 || !loops.reductions.empty()) {
        return std::nullopt;
      }
      found = Written{m, store.index};
    }
    for (const Reduction& reduction : loops.reductions) {
      for (BufferId id : reduction.results) {
        if (id == buffer) return std::nullopt;
      }
    }
  }
  return found;
}

bool Writes(const Nest& nest, BufferId buffer) {
  for (const NestMember& member : nest.members) {
    for (const Store& store : member.loops.stores) {
      if (store.buffer == buffer) return true;
    }
  }
  return false;
}

// Is the operand read, if at all, only at the written element and by the writer or members that run
// before it? Members run in the nest's order, also within one pass.
bool ReadsOnlyThere(const Nest& nest, BufferId operand, const Written& written) {
  for (size_t m = 0; m < nest.members.size(); ++m) {
    for (const Inst& inst : nest.members[m].loops.block.insts) {
      if (inst.kind != InstKind::kLoad || inst.buffer != operand) continue;
      if (m > written.member || !(inst.index == written.index)) return false;
    }
  }
  return true;
}

bool OneLayout(const BufferInfo& a, const BufferInfo& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
}

}  // namespace

std::map<BufferId, BufferId> FindInPlace(const Program& program, const Schedule& schedule,
                                         const std::vector<Lifetime>& lifetimes,
                                         const std::vector<bool>& may_share) {
  std::map<BufferId, BufferId> shared;
  std::set<BufferId> taken;
  const int buffers = static_cast<int>(program.buffers.size());
  for (int step = 0; step < static_cast<int>(schedule.steps.size()); ++step) {
    // Nests of one launch run at the same time, so only a kernel of one nest is simple enough.
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[step].work);
    if (kernel == nullptr || kernel->nests.size() != 1) continue;
    const Nest& nest = kernel->nests[0];
    if (nest.shape == NestShape::kBlocked) continue;
    for (BufferId result = 0; result < buffers; ++result) {
      if (!may_share[result] || lifetimes[result].first != step) continue;
      const auto written = OnlyStore(nest, result);
      if (!written) continue;
      for (BufferId operand = 0; operand < buffers; ++operand) {
        if (operand == result || !may_share[operand] || lifetimes[operand].last != step ||
            lifetimes[operand].first >= step || taken.count(operand) != 0 ||
            !OneLayout(program.buffers[result], program.buffers[operand]) ||
            Writes(nest, operand) || !ReadsOnlyThere(nest, operand, *written)) {
          continue;
        }
        shared[result] = operand;
        taken.insert(operand);
        break;
      }
    }
  }
  return shared;
}

}  // namespace tensord::compiler
