// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/column_blocks.h"

#include <set>

#include "compiler/schedule/reject.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kColumns = 64;

// Indirect symbols whose value depends on the vector loop.
std::set<int> VaryingIndirections(const Block& block, sym::SymbolKey loop) {
  std::vector<bool> varies(block.insts.size(), false);
  std::set<int> symbols;
  for (size_t i = 0; i < block.insts.size(); ++i) {
    const Inst& inst = block.insts[i];
    for (int arg : inst.args) varies[i] = varies[i] || varies[arg];
    if (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) {
      sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kLoop && atom.id == loop.second) varies[i] = true;
        if (atom.kind == sym::AtomKind::kIndirect && symbols.count(atom.id)) varies[i] = true;
      });
    }
    if (inst.kind == InstKind::kIndirect && varies[i]) symbols.insert(inst.symbol);
  }
  return symbols;
}

// Every store steps by the columns directly.
bool AreColumnsDisjoint(const Nest& nest) {
  const sym::SymbolKey loop = VectorLoopOf(nest);
  for (const NestMember& member : nest.members) {
    const std::set<int> varying = VaryingIndirections(member.loops.block, loop);
    for (const Store& store : member.loops.stores) {
      const auto stride = sym::LinearCoefficient(store.index, loop);
      bool varies = !stride || stride->Is(0);
      sym::ForEachSymbol(store.index, [&](const sym::Atom& atom) {
        varies |= atom.kind == sym::AtomKind::kIndirect && varying.count(atom.id) != 0;
      });
      if (varies) return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CanScheduleColumnBlocks(const Nest& nest) {
  if (nest.shape != NestShape::kBlocked) return Reject("its rows run in parallel");
  if (nest.inner.empty()) return Reject("it has no columns");
  if (!AreColumnsDisjoint(nest)) return Reject("two columns may store to one element");
  return absl::OkStatus();
}

CpuColumnBlocks ScheduleColumnBlocks() { return {.columns = kColumns}; }

}  // namespace tensord::compiler
