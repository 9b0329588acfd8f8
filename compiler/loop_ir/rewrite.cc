// SPDX-License-Identifier: Apache-2.0
#include "compiler/loop_ir/rewrite.h"

namespace tensord::compiler {
namespace {

template <class OpType, class Visit>
void VisitExprs(OpType& op, const Visit& visit) {
  for (auto& inst : op.block.insts) {
    if (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) visit(inst.index);
  }
  for (auto& store : op.stores) visit(store.index);
  for (auto& reduction : op.reductions) {
    for (auto& index : reduction.indices) visit(index);
  }
}

}  // namespace

void ForEachExpr(LoopOp* op, const std::function<void(Expr*)>& visit) {
  VisitExprs(*op, [&](Expr& e) { visit(&e); });
}

void ForEachExpr(const LoopOp& op, const std::function<void(const Expr&)>& visit) {
  VisitExprs(op, visit);
}

void SubstituteLoops(LoopOp* op, const std::vector<Expr>& loops) {
  sym::Substitution with;
  for (size_t d = 0; d < loops.size(); ++d) {
    with.emplace(sym::SymbolKey{sym::AtomKind::kLoop, static_cast<int>(d)}, loops[d]);
  }
  ForEachExpr(op, [&](Expr* e) { *e = sym::Substitute(*e, with); });
}

bool CanMergeLoops(const std::vector<Expr>& exprs, int outer, const Expr& outer_extent,
                   const Expr& inner_extent) {
  const sym::SymbolKey outer_key{sym::AtomKind::kLoop, outer},
      inner_key{sym::AtomKind::kLoop, outer + 1};
  // A scratch id far from any real loop.
  constexpr int kMerged = 1 << 20;
  const Expr merged = Expr::Loop(kMerged, outer_extent * inner_extent);
  const Expr split =
      Expr::Loop(outer, outer_extent) * inner_extent + Expr::Loop(outer + 1, inner_extent);
  for (const Expr& e : exprs) {
    if (!sym::Contains(e, outer_key) && !sym::Contains(e, inner_key)) continue;
    const Expr as_merged = sym::Substitute(e, {{outer_key, Expr(0)}, {inner_key, merged}});
    if (!(sym::Substitute(as_merged, {{{sym::AtomKind::kLoop, kMerged}, split}}) == e))
      return false;
  }
  return true;
}

}  // namespace tensord::compiler
