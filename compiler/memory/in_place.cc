// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/in_place.h"

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

// Where a nest writes a buffer: by one member that writes nothing else, in its innermost loop. What
// stands outside of it is stored by one thread, which may be ahead of those that have yet to load.
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
      const bool outside =
          !nest.members[m].has_outer || (!nest.members[m].has_inner && !nest.inner.empty());
      if (found || outside || store.mode != StoreMode::kAssign || store.guard >= 0 ||
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
// before it? Members run in the nest's order, also within one pass. A local that is computed of the
// operand counts as the operand: later passes may compute it again.
bool ReadsOnlyThere(const Nest& nest, BufferId operand, const Written& written) {
  std::set<BufferId> computed_of_it;  // locals
  for (size_t m = 0; m < nest.members.size(); ++m) {
    const LoopOp& loops = nest.members[m].loops;
    bool reads = false;
    for (const Inst& inst : loops.block.insts) {
      if (inst.kind != InstKind::kLoad) continue;
      const bool is_operand = inst.buffer == operand;
      if (!is_operand && computed_of_it.count(inst.buffer) == 0) continue;
      if (m > written.member || (is_operand && !(inst.index == written.index))) return false;
      reads = true;
    }
    if (!reads) continue;
    for (const Store& store : loops.stores) {
      if (nest.local.count(store.buffer) > 0) computed_of_it.insert(store.buffer);
    }
  }
  return true;
}

// Elements are compared by where they lie, in whatever shapes.
bool OneSize(const BufferInfo& a, const BufferInfo& b) {
  return a.dtype == b.dtype &&
         StorageElements(a.sizes, a.strides) == StorageElements(b.sizes, b.strides);
}

// The numbers of the nests that read or write each buffer.
std::map<BufferId, std::set<size_t>> NestsOfBuffers(const Kernel& kernel) {
  std::map<BufferId, std::set<size_t>> nests;
  for (size_t n = 0; n < kernel.nests.size(); ++n) {
    for (const auto* members : {&kernel.nests[n].members, &kernel.nests[n].after}) {
      for (const NestMember& member : *members) {
        const Accesses accesses = AccessesOf(member.loops);
        for (BufferId id : accesses.reads) nests[id].insert(n);
        for (BufferId id : accesses.writes) nests[id].insert(n);
      }
    }
  }
  return nests;
}

// Every element of the buffer, in row-major order of those sizes.
bool IsWhole(const BufferView& view, const BufferInfo& buffer) {
  return view.offset.Is(0) && view.strides == ContiguousStrides(view.sizes) &&
         sym::Product(view.sizes) == StorageElements(buffer.sizes, buffer.strides);
}

int Reads(const ExternOp& call, BufferId buffer) {
  int count = 0;
  ForEachView(call.args, [&](const BufferView& view) { count += view.buffer == buffer; });
  return count;
}

class Finder {
 public:
  Finder(const Program& program, const Schedule& schedule, const std::vector<Lifetime>& lifetimes,
         const std::vector<bool>& may_share, const std::vector<bool>& donated)
      : program_(program),
        schedule_(schedule),
        lifetimes_(lifetimes),
        may_share_(may_share),
        donated_(donated),
        beginning_(schedule.steps.size()),
        ending_(schedule.steps.size()) {
    for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
      if (lifetimes[id].first < 0) continue;
      beginning_[lifetimes[id].first].push_back(id);
      ending_[lifetimes[id].last].push_back(id);
    }
  }

  std::map<BufferId, BufferId> Run() {
    for (int step = 0; step < static_cast<int>(schedule_.steps.size()); ++step) {
      const auto& work = schedule_.steps[step].work;
      if (const auto* kernel = std::get_if<Kernel>(&work)) {
        InKernel(step, *kernel);
      } else if (const auto* call =
                     std::get_if<ExternOp>(&program_.operations[std::get<int>(work)])) {
        InCall(step, *call);
      }
    }
    return std::move(shared_);
  }

 private:
  bool Begins(BufferId result, int step) const {
    return may_share_[result] && lifetimes_[result].first == step;
  }
  bool IsFreeAt(BufferId operand, int step) const {
    const Lifetime& life = lifetimes_[operand];
    const bool has_value = donated_[operand] || (may_share_[operand] && life.first < step);
    return has_value && life.last == step && taken_.count(operand) == 0;
  }

  // Nests of one launch run at the same time: both buffers must be of one nest alone.
  void InKernel(int step, const Kernel& kernel) {
    if (beginning_[step].empty() || ending_[step].empty()) return;
    const std::map<BufferId, std::set<size_t>> nests = NestsOfBuffers(kernel);
    for (BufferId result : beginning_[step]) {
      const auto writers = nests.find(result);
      if (!Begins(result, step) || writers == nests.end() || writers->second.size() != 1) continue;
      const Nest& nest = kernel.nests[*writers->second.begin()];
      if (nest.shape == NestShape::kBlocked || !nest.after.empty()) continue;
      const auto written = OnlyStore(nest, result);
      if (!written) continue;
      for (BufferId operand : ending_[step]) {
        const auto readers = nests.find(operand);
        if (operand != result && IsFreeAt(operand, step) && readers != nests.end() &&
            readers->second == writers->second &&
            OneSize(program_.buffers[result], program_.buffers[operand]) &&
            !Writes(nest, operand) && ReadsOnlyThere(nest, operand, *written)) {
          Share(result, operand);
          break;
        }
      }
    }
  }

  void InCall(int step, const ExternOp& call) {
    if (call.overwrites < 0) return;
    const auto& from = std::get<BufferView>(call.args[call.overwrites].value);
    const BufferView& to = call.outs[0];
    const BufferInfo &operand = program_.buffers[from.buffer],
                     &result = program_.buffers[to.buffer];
    if (Begins(to.buffer, step) && IsFreeAt(from.buffer, step) && operand.dtype == result.dtype &&
        from.sizes == to.sizes && IsWhole(from, operand) && IsWhole(to, result) &&
        Reads(call, from.buffer) == 1) {
      Share(to.buffer, from.buffer);
    }
  }

  void Share(BufferId result, BufferId operand) {
    shared_[result] = operand;
    taken_.insert(operand);
  }

  const Program& program_;
  const Schedule& schedule_;
  const std::vector<Lifetime>& lifetimes_;
  const std::vector<bool>&may_share_, &donated_;
  std::vector<std::vector<BufferId>> beginning_, ending_;  // by step: whose lives do so
  std::map<BufferId, BufferId> shared_;
  std::set<BufferId> taken_;
};

}  // namespace

std::map<BufferId, BufferId> FindInPlace(const Program& program, const Schedule& schedule,
                                         const std::vector<Lifetime>& lifetimes,
                                         const std::vector<bool>& may_share,
                                         const std::vector<bool>& donated) {
  return Finder(program, schedule, lifetimes, may_share, donated).Run();
}

}  // namespace tensord::compiler
