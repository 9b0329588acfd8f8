// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/register_resident.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace tensord::compiler {
namespace {

// What a value for a later pass may cost to be computed again, in instructions and in loads that
// the caches serve: where it would stay in registers, and where it would lie in memory.
constexpr int kCheapAgain = 12;
constexpr int kMostCostAgain = 40;
constexpr int kMostVectorsAgain = 2;

bool VariesInRow(const Nest& nest, const Expr& index) {
  bool varies = false;
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    varies |= atom.kind == sym::AtomKind::kIndirect ||
              (atom.kind == sym::AtomKind::kLoop && atom.id >= static_cast<int>(nest.outer.size()));
  });
  return varies;
}

}  // namespace

bool IsColumnSum(const NestMember& m) { return m.has_inner && m.reduces_outer && !m.reduces_inner; }

std::set<BufferId> LocalsOfRows(const Nest& nest) {
  std::set<BufferId> locals;
  for (const NestMember& writer : nest.members) {
    if (!writer.has_inner) continue;
    for (const Store& store : writer.loops.stores) {
      if (nest.local.count(store.buffer) == 0) continue;
      for (const NestMember& reader : nest.members) {
        if (reader.position <= writer.position) continue;
        for (const Inst& inst : reader.loops.block.insts) {
          if (inst.kind == InstKind::kLoad && inst.buffer == store.buffer) {
            locals.insert(store.buffer);
          }
        }
      }
    }
  }
  return locals;
}

bool DependsOnRow(const Nest& nest, const Expr& index) {
  if (sym::ContainsKind(index, sym::AtomKind::kIndirect)) return false;
  for (size_t d = 0; d < nest.outer.size(); ++d) {
    if (sym::Contains(index, {sym::AtomKind::kLoop, static_cast<int>(d)})) return true;
  }
  return false;
}

bool IsWritten(const Nest& nest, BufferId buffer, int from) {
  return std::ranges::any_of(nest.members, [=](const NestMember& member) {
    return member.position >= from &&
           std::ranges::any_of(member.loops.stores,
                               [=](const Store& store) { return store.buffer == buffer; });
  });
}

bool IsLoaded(const Nest& nest, BufferId buffer) {
  return std::ranges::any_of(nest.members, [buffer](const NestMember& member) {
    return std::ranges::any_of(member.loops.block.insts, [buffer](const Inst& inst) {
      return inst.kind == InstKind::kLoad && inst.buffer == buffer;
    });
  });
}

// What is the same for all rows, like a norm's weight, comes from the cache the second time: in
// registers it would cost as much as the row itself.
std::set<std::pair<BufferId, Expr>> RepeatedLoads(const Nest& nest) {
  std::set<std::pair<BufferId, Expr>> repeated;
  std::map<std::pair<BufferId, Expr>, int> first;
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind != InstKind::kLoad || inst.guard >= 0 || IsWritten(nest, inst.buffer) ||
          !DependsOnRow(nest, inst.index) || !VariesInRow(nest, inst.index)) {
        continue;
      }
      const auto key = std::make_pair(inst.buffer, inst.index);
      auto [it, is_new] = first.emplace(key, member.position);
      if (!is_new && it->second != member.position) repeated.insert(key);
    }
  }
  return repeated;
}

std::set<BufferId> ResultsReadBack(const Nest& nest) {
  struct Uses {
    int position = 0, op = 0;
    std::optional<Expr> index;
    bool plain = true, read_later = false;
  };
  std::map<BufferId, Uses> uses;
  for (const NestMember& member : nest.members) {
    for (const Store& store : member.loops.stores) {
      if (nest.local.count(store.buffer) != 0 || !member.has_inner) continue;
      Uses& use = uses[store.buffer];
      use.plain = use.plain && !use.index && store.mode == StoreMode::kAssign && store.guard < 0 &&
                  VariesInRow(nest, store.index) &&
                  !sym::ContainsKind(store.index, sym::AtomKind::kIndirect);
      use.position = member.position;
      use.op = member.op;
      use.index = store.index;
    }
  }
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      const auto it = inst.kind == InstKind::kLoad ? uses.find(inst.buffer) : uses.end();
      if (it == uses.end()) continue;
      Uses& use = it->second;
      const bool later = member.has_inner && member.position > use.position;
      // What is read before it is written is other business; behind that, within the pass, the
      // value is at hand.
      use.plain = use.plain && (later ? inst.guard < 0 && inst.index == *use.index
                                      : member.position == use.position && member.op > use.op);
      use.read_later |= later;
    }
  }
  std::set<BufferId> kept;
  for (const auto& [id, use] : uses) {
    if (use.plain && use.read_later) kept.insert(id);
  }
  return kept;
}

std::set<BufferId> RecomputedLocals(const Nest& nest, bool in_registers) {
  std::set<BufferId> again;
  const std::set<BufferId> locals = LocalsOfRows(nest);
  for (const NestMember& writer : nest.members) {
    const std::vector<Inst>& insts = writer.loops.block.insts;
    for (const Store& store : writer.loops.stores) {
      if (locals.count(store.buffer) == 0 || store.mode != StoreMode::kAssign) continue;
      int cost = 0, vectors = 0;
      std::set<int> seen;
      std::vector<int> stack{store.value};
      bool possible = store.guard < 0;
      while (!stack.empty()) {
        const int id = stack.back();
        stack.pop_back();
        if (!seen.insert(id).second) continue;
        const Inst& inst = insts[id];
        if (inst.kind == InstKind::kCompute) cost += InfoOf(inst.op).cost;
        // A prefix is all threads' work.
        possible = possible && inst.kind != InstKind::kScan;
        if (inst.kind == InstKind::kLoad) {
          // What the nest overwrites from here on may be gone by then.
          possible = possible && inst.guard < 0 && locals.count(inst.buffer) == 0 &&
                     !IsWritten(nest, inst.buffer, writer.position);
          vectors += VariesInRow(nest, inst.index) ? 1 : 0;
        }
        for (int arg : inst.args) stack.push_back(arg);
      }
      // A value in registers costs more than a few instructions, but what is loaded for it would be
      // kept in its stead.
      const bool pays = in_registers ? vectors == 0 && cost <= kCheapAgain
                                     : vectors <= kMostVectorsAgain && cost <= kMostCostAgain;
      if (possible && pays) again.insert(store.buffer);
    }
  }
  return again;
}

int ColumnArrays(const Nest& nest) {
  int arrays = 0;
  for (const NestMember& member : nest.members) {
    if (IsColumnSum(member)) arrays += static_cast<int>(member.loops.reductions.size());
  }
  return arrays;
}

int RegisterResidentArrays(const Nest& nest) {
  const std::set<BufferId> again = RecomputedLocals(nest, /*in_registers=*/true);
  int arrays = static_cast<int>(RepeatedLoads(nest).size() + ResultsReadBack(nest).size());
  for (BufferId id : LocalsOfRows(nest)) arrays += again.count(id) == 0 ? 1 : 0;
  return arrays + ColumnArrays(nest);
}

int64_t BytesOfRowValues(const Program& program, const Nest& nest) {
  int64_t bytes = 0;
  const std::set<BufferId> again = RecomputedLocals(nest, /*in_registers=*/false);
  for (BufferId id : LocalsOfRows(nest)) {
    if (again.count(id) != 0) continue;
    bytes += ItemSize(ComputeType(program.buffers[id].dtype));
  }
  return bytes * sym::Hint(sym::Product(nest.inner));
}

}  // namespace tensord::compiler
