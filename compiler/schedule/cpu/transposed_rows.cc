// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/transposed_rows.h"

#include <algorithm>

#include "compiler/schedule/reject.h"

namespace tensord::compiler {
namespace {

bool HasTransposedLoad(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(), [&](const NestMember& member) {
    const std::vector<Inst>& insts = member.loops.block.insts;
    return std::any_of(insts.begin(), insts.end(),
                       [&](const Inst& inst) { return IsTransposedLoad(nest, inst); });
  });
}

bool IsOnePointwisePass(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& member) {
    return member.has_inner && member.loops.reductions.empty() && !Scans(member.loops) &&
           member.position == 1;
  });
}

}  // namespace

bool IsTransposedLoad(const Nest& nest, const Inst& inst) {
  if (inst.kind != InstKind::kLoad || inst.guard >= 0 || nest.outer.empty() || nest.inner.empty() ||
      nest.local.count(inst.buffer) != 0 ||
      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect)) {
    return false;
  }
  const int row = static_cast<int>(nest.outer.size()) - 1;
  const int column = row + static_cast<int>(nest.inner.size());
  const auto along_row = sym::LinearCoefficient(inst.index, {sym::AtomKind::kLoop, column});
  const auto across = sym::LinearCoefficient(inst.index, {sym::AtomKind::kLoop, row});
  return across && across->Is(1) && along_row && !along_row->Is(0) && !along_row->Is(1);
}

absl::Status CanScheduleTransposedRows(const Nest& nest, int lanes) {
  if (nest.shape != NestShape::kTiled || nest.outer.empty() || nest.inner.size() != 1) {
    return Reject("it has no two loops to transpose");
  }
  if (lanes == 1) return Reject("a vector is one element");
  if (sym::Hint(nest.outer.back()) < lanes || sym::Hint(nest.inner[0]) < lanes) {
    return Reject("a loop is shorter than a vector");
  }
  if (!IsOnePointwisePass(nest)) return Reject("it is not one pointwise pass");
  if (!HasTransposedLoad(nest)) return Reject("no operand lies across the vector loop");
  return absl::OkStatus();
}

}  // namespace tensord::compiler
