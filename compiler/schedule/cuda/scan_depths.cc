// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/scan_depths.h"

#include <algorithm>

#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Scans behind each other, each of which takes a launch that reads everything.
constexpr int kMostDepth = 2;

}  // namespace

ScanDepths::ScanDepths(const Nest& nest) {
  std::map<BufferId, int> of_buffer;  // that earlier members store
  for (const NestMember& member : nest.members) {
    std::map<int, int> of_symbol;
    const std::vector<Inst>& insts = member.loops.block.insts;
    for (int id = 0; id < static_cast<int>(insts.size()); ++id) {
      const Inst& inst = insts[id];
      int depth = 0;
      for (const int arg : inst.args) depth = std::max(depth, of_value_.at({&member, arg}));
      if (inst.guard >= 0) depth = std::max(depth, of_value_.at({&member, inst.guard}));
      sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kIndirect) depth = std::max(depth, of_symbol[atom.id]);
      });
      if (inst.kind == InstKind::kLoad) depth = std::max(depth, of_buffer[inst.buffer]);
      if (inst.kind == InstKind::kScan) scans_.push_back({&member, id, ++depth});
      if (inst.kind == InstKind::kIndirect) of_symbol[inst.symbol] = depth;
      of_value_[{&member, id}] = depth;
    }
    for (const Store& store : member.loops.stores) {
      int& depth = of_buffer[store.buffer];
      depth = std::max(depth, of_value_.at({&member, store.value}));
    }
  }
}

int ScanDepths::deepest() const {
  int deepest = 0;
  for (const NestScan& scan : scans_) deepest = std::max(deepest, scan.depth);
  return deepest;
}

bool MayScanInParts(const Nest& nest) {
  const auto in_one_pass = [](const NestMember& m) {
    return m.position == 1 && m.has_inner && m.has_outer && m.loops.reductions.empty();
  };
  if (!HasScans(nest) || !nest.after.empty()) return false;
  if (!std::all_of(nest.members.begin(), nest.members.end(), in_one_pass)) return false;
  const ScanDepths depths(nest);
  const auto multiplies = [](const NestScan& scan) {
    return scan.member->loops.block.insts[scan.inst].op == Op::k_mul;
  };
  return depths.deepest() <= kMostDepth &&
         std::none_of(depths.scans().begin(), depths.scans().end(), multiplies);
}

}  // namespace tensord::compiler
