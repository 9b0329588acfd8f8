// SPDX-License-Identifier: Apache-2.0
#include "compiler/codegen/nest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace tensord::compiler {

ir::Statement InParts(const std::string& loop, const ir::Value& first, const ir::Value& last,
                      LoopParts parts,
                      const std::function<ir::Block(ir::Value, ir::Value)>& within) {
  const std::string from = absl::StrCat("from_", loop), to = absl::StrCat("to_", loop);
  const ir::Value begin = ir::IndexVar(from), end = ir::IndexVar(to);
  ir::Block body;
  if (!parts.are_even) {
    body = {ir::LetIndex(to, ir::CallOf("min_index", {last, begin + parts.iterations}))};
  }
  ir::Append(&body, parts.before);
  ir::Append(&body, within(begin, end));
  ir::Append(&body, parts.behind);
  return ir::Loop(from, first, begin < last, parts.iterations, std::move(body));
}

std::set<int> NestLowering::Positions() const {
  std::set<int> positions;
  for (const NestMember& member : nest_.members) positions.insert(member.position);
  return positions;
}

void NestLowering::LowerMembers(int position, PassPart part) {
  body_base_->BeginPass(part);
  for (const NestMember& member : nest_.members) {
    if (member.position != position) continue;
    body_base_->LowerStores(member, [&](BufferId buffer) { return ReadLater(buffer, position); });
    accumulators_base_->Accumulate(member, part.copy);
  }
}

ir::Block NestLowering::RowStatements(int position) {
  for (const NestMember& member : nest_.members) {
    if (member.position != position) continue;
    body_base_->BeginPass();
    body_base_->LowerStores(member, [](BufferId) { return false; });
    accumulators_base_->AccumulateRow(member);
  }
  return body_base_->TakeUnit();
}

ir::Block NestLowering::InnerLoops(ir::Block inside, int inside_loops, int parted,
                                   const LoopParts& parts) {
  const int loops = static_cast<int>(nest_.inner.size()) - 1 - inside_loops;
  // Outer ones first, for the order of arguments.
  std::vector<ir::Value> extents;
  for (int q = 0; q < loops; ++q) extents.push_back(body_base_->Extent(nest_.inner[q]));
  for (int q = loops - 1; q >= 0; --q) {
    const int loop = FirstInner() + q;
    ir::Block body = body_base_->at(q + 1);
    ir::Append(&body, inside);
    const auto iterate = [&](const ir::Value& first, const ir::Value& last) -> ir::Block {
      return {ir::Loop(LoopName(loop), first, LoopVar(loop) < last, 1, std::move(body))};
    };
    // A known number of iterations, from 0: GCC then jams two of them.
    const auto count = [&](const ir::Value& first, const ir::Value&) -> ir::Block {
      const std::string step = absl::StrCat("step_", LoopName(loop));
      body.insert(body.begin(), ir::LetIndex(LoopName(loop), first + ir::IndexVar(step)));
      return {ir::Loop(step, 0, ir::IndexVar(step) < parts.iterations, 1, std::move(body))};
    };
    if (q != parted) {
      inside = iterate(0, extents[q]);
    } else if (parts.are_even) {
      inside = {InParts(LoopName(loop), 0, extents[q], parts, count)};
    } else {
      inside = {InParts(LoopName(loop), 0, extents[q], parts, iterate)};
    }
  }
  return inside;
}

bool NestLowering::ReadLater(BufferId buffer, int position) const {
  for (const NestMember& member : nest_.members) {
    if (member.position <= position) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kLoad && inst.buffer == buffer) return true;
    }
  }
  return false;
}

ir::Block DecodeLoops(BodyLowering* body, const DecodedLoops& loops) {
  ir::Block block;
  Expr inside(1);
  const int count = static_cast<int>(loops.extents.size());
  for (int d = count - 1; d >= 0; --d) {
    const bool in_vectors = d == count - 1 && loops.last_width > 1;
    const Expr extent =
        in_vectors ? sym::FloorDiv(loops.extents[d], Expr(loops.last_width)) : loops.extents[d];
    ir::Value value = loops.number;
    if (!inside.Is(1)) value = loops.number / body->Scalar(inside);
    if (d > 0) value = value % body->Extent(extent);
    if (in_vectors) value = value * Width();
    block.push_back(ir::LetIndex(LoopName(loops.first_loop + d), value));
    inside *= extent;
  }
  return block;
}

}  // namespace tensord::compiler
