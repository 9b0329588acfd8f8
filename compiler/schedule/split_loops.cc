// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/split_loops.h"

#include <numeric>
#include <optional>

#include "compiler/loop_ir/rewrite.h"
#include "compiler/schedule/loop_order.h"

namespace tensord::compiler {
namespace {

constexpr int kMostSplits = 12;  // of one operation
// Splitting for a comparison leaves an inner loop of at least a vector, and few outer steps.
constexpr int64_t kLeastInner = 16;
constexpr int64_t kMostOuterParts = 8;

struct Split {
  int loop;
  int64_t inner;  // the inner loop's extent; divides the loop's
};

// A bare loop under a division by a constant that divides its extent.
std::optional<Split> FindDivision(const Expr& e) {
  for (const sym::Term& term : e.terms()) {
    for (const sym::AtomPtr& atom : term.atoms) {
      if (atom->kind != sym::AtomKind::kFloorDiv && atom->kind != sym::AtomKind::kMod &&
          atom->kind != sym::AtomKind::kMin && atom->kind != sym::AtomKind::kMax) {
        continue;
      }
      for (const Expr& arg : atom->args) {
        if (auto inside = FindDivision(arg)) return inside;
      }
      const sym::Atom* loop = atom->args[0].AsAtom();
      const auto divisor = atom->args[1].AsConstant();
      if (atom->kind == sym::AtomKind::kMin || atom->kind == sym::AtomKind::kMax) continue;
      if (loop == nullptr || loop->kind != sym::AtomKind::kLoop || !divisor || *divisor < 2)
        continue;
      if (sym::ExactDiv(loop->args[0], Expr(*divisor))) return Split{loop->id, *divisor};
    }
  }
  return std::nullopt;
}

// e < bound or e >= bound, where e is a loop plus a constant: the multiple of which the loop passes
// the bound.
struct Comparison {
  int loop;
  int64_t point;  // the comparison changes where the loop reaches it
};

std::optional<Comparison> ComparisonOf(const Block& block, const Inst& inst) {
  if (inst.kind != InstKind::kCompute || (inst.op != Op::k_lt && inst.op != Op::k_ge))
    return std::nullopt;
  const Inst &left = block.insts[inst.args[0]], &right = block.insts[inst.args[1]];
  if (left.kind != InstKind::kIndex || right.kind != InstKind::kConstant) return std::nullopt;
  const sym::Atom* loop = nullptr;
  Expr rest(0);
  for (const sym::Term& term : left.index.terms()) {
    if (term.atoms.empty()) {
      rest += Expr(term.coefficient);
    } else if (loop == nullptr && term.coefficient == 1 && term.atoms.size() == 1 &&
               term.atoms[0]->kind == sym::AtomKind::kLoop) {
      loop = term.atoms[0].get();
    } else {
      return std::nullopt;
    }
  }
  if (loop == nullptr) return std::nullopt;
  return Comparison{loop->id, right.integer - *rest.AsConstant()};
}

std::optional<Split> FindComparison(const LoopOp& op) {
  for (const Inst& inst : op.block.insts) {
    const auto comparison = ComparisonOf(op.block, inst);
    if (!comparison) continue;
    const auto extent = ExtentOf(op, comparison->loop).AsConstant();
    if (!extent || comparison->point <= 0 || comparison->point >= *extent) continue;
    const int64_t inner = std::gcd(*extent, comparison->point);
    if (inner >= kLeastInner && *extent / inner <= kMostOuterParts)
      return Split{comparison->loop, inner};
  }
  return std::nullopt;
}

// Loop k becomes loops k (outer) and k + 1 (of extent `inner`).
void Apply(const Split& split, LoopOp* op) {
  const Expr extent = ExtentOf(*op, split.loop);
  const Expr parts = *sym::ExactDiv(extent, Expr(split.inner));
  std::vector<Expr> loops;
  for (int k = 0; k < LoopCount(*op); ++k) {
    if (k < split.loop) {
      loops.push_back(Expr::Loop(k, ExtentOf(*op, k)));
    } else if (k == split.loop) {
      loops.push_back(Expr::Loop(k, parts) * split.inner + Expr::Loop(k + 1, Expr(split.inner)));
    } else {
      loops.push_back(Expr::Loop(k + 1, ExtentOf(*op, k)));
    }
  }
  SubstituteLoops(op, loops);
  const int outer = static_cast<int>(op->sizes.size());
  auto& sizes = split.loop < outer ? op->sizes : op->reduce_sizes;
  const auto at = sizes.begin() + (split.loop < outer ? split.loop : split.loop - outer);
  *at = parts;
  sizes.insert(at + 1, Expr(split.inner));
}

// e < p is e / g < p / g where g divides p: without the loops inside g the comparison is a scalar.
void SimplifyComparisons(int64_t inner, LoopOp* op) {
  std::vector<Inst> added;
  struct Change {
    size_t inst;
    int index, bound;  // positions in `added`
  };
  std::vector<Change> changes;
  const Block& block = op->block;
  for (size_t i = 0; i < block.insts.size(); ++i) {
    const Inst& inst = block.insts[i];
    if (inst.kind != InstKind::kCompute || (inst.op != Op::k_lt && inst.op != Op::k_ge)) continue;
    const Inst &left = block.insts[inst.args[0]], &right = block.insts[inst.args[1]];
    if (left.kind != InstKind::kIndex || right.kind != InstKind::kConstant) continue;
    if (right.integer % inner != 0) continue;
    const Expr quotient = sym::FloorDiv(left.index, Expr(inner));
    bool divided = false;  // a division that is left would only make things worse
    for (const sym::Term& term : quotient.terms()) {
      for (const sym::AtomPtr& atom : term.atoms) divided |= atom->kind != sym::AtomKind::kLoop;
    }
    if (divided) continue;
    Inst index = left, bound = right;
    index.index = quotient;
    bound.integer = right.integer / inner;
    changes.push_back({i, static_cast<int>(added.size()), static_cast<int>(added.size()) + 1});
    added.push_back(std::move(index));
    added.push_back(std::move(bound));
  }
  if (changes.empty()) return;
  // The new values have no operands, so they may stand first.
  const int shift = static_cast<int>(added.size());
  std::vector<Inst> insts = std::move(added);
  for (Inst& inst : op->block.insts) {
    for (int& arg : inst.args) arg += shift;
    if (inst.guard >= 0) inst.guard += shift;
    insts.push_back(std::move(inst));
  }
  for (const Change& change : changes)
    insts[change.inst + shift].args = {change.index, change.bound};
  op->block.insts = std::move(insts);
  for (Store& store : op->stores) {
    store.value += shift;
    if (store.guard >= 0) store.guard += shift;
  }
  for (Reduction& reduction : op->reductions) reduction.value += shift;
}

}  // namespace

void SplitLoops(Program* program) {
  for (Operation& operation : program->operations) {
    auto* op = std::get_if<LoopOp>(&operation);
    if (op == nullptr) continue;
    for (int i = 0; i < kMostSplits; ++i) {
      std::optional<Split> split;
      ForEachExpr(static_cast<const LoopOp&>(*op), [&](const Expr& e) {
        if (!split) split = FindDivision(e);
      });
      const bool divides = split.has_value();
      if (!divides) split = FindComparison(*op);
      if (!split) break;
      Apply(*split, op);
      if (!divides) SimplifyComparisons(split->inner, op);
    }
  }
}

}  // namespace tensord::compiler
