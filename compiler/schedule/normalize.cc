// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/normalize.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/loop_ir/rewrite.h"
#include "compiler/schedule/access.h"

namespace tensord::compiler {
namespace {

Expr ExtentOf(const LoopOp& op, int loop) {
  const int outer = static_cast<int>(op.sizes.size());
  return loop < outer ? op.sizes[loop] : op.reduce_sizes[loop - outer];
}

int LoopCount(const LoopOp& op) {
  return static_cast<int>(op.sizes.size() + op.reduce_sizes.size());
}

// The size of one step of a loop in an index; 0 when it does not occur. A loop inside a division or
// behind an indirection counts with the difference that its first step makes.
int64_t StrideHint(const Expr& index, int loop) {
  const sym::SymbolKey key{sym::AtomKind::kLoop, loop};
  if (!sym::Contains(index, key)) return 0;
  if (auto c = sym::LinearCoefficient(index, key)) return std::abs(sym::Hint(*c));
  const auto value = [&](int64_t at) {
    return sym::Evaluate(index, [&](const sym::Atom& atom) -> int64_t {
      if (atom.kind == sym::AtomKind::kSize) return atom.hint;
      return atom.kind == sym::AtomKind::kLoop && atom.id == loop ? at : 0;
    });
  };
  return std::max<int64_t>(1, std::abs(value(1) - value(0)));
}

// The loops that each indirect symbol's value depends on.
std::map<int, std::set<int>> LoopsBehindIndirection(const LoopOp& op) {
  std::map<int, std::set<int>> behind;
  std::vector<std::set<int>> loops(op.block.insts.size());
  for (size_t i = 0; i < op.block.insts.size(); ++i) {
    const Inst& inst = op.block.insts[i];
    for (int arg : inst.args) loops[i].insert(loops[arg].begin(), loops[arg].end());
    if (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) {
      sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kLoop) loops[i].insert(atom.id);
        if (atom.kind == sym::AtomKind::kIndirect) {
          loops[i].insert(behind[atom.id].begin(), behind[atom.id].end());
        }
      });
    }
    if (inst.kind == InstKind::kIndirect) behind[inst.symbol] = loops[i];
  }
  return behind;
}

// The index by which loops are ordered: the first store's, or that of the load that covers most of
// the iteration space. Loops that only an indirection sees count as covered.
const Expr* LeadingIndex(const LoopOp& op) {
  if (!op.stores.empty() && !sym::ContainsKind(op.stores[0].index, sym::AtomKind::kIndirect)) {
    return &op.stores[0].index;
  }
  const std::map<int, std::set<int>> behind = LoopsBehindIndirection(op);
  const Expr* widest = nullptr;
  int64_t most = -1;
  for (const Inst& inst : op.block.insts) {
    if (inst.kind != InstKind::kLoad) continue;
    std::set<int> covered;
    sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
      if (atom.kind == sym::AtomKind::kLoop) covered.insert(atom.id);
      if (atom.kind == sym::AtomKind::kIndirect) {
        const std::set<int>& loops = behind.at(atom.id);
        covered.insert(loops.begin(), loops.end());
      }
    });
    int64_t weight = 1;
    for (int loop : covered) weight *= std::max<int64_t>(1, sym::Hint(ExtentOf(op, loop)));
    if (weight > most) {
      most = weight;
      widest = &inst.index;
    }
  }
  return widest;
}

// Reorders loops: new loop k is old loop order[k]; the first `outer` stay independent.
void Permute(LoopOp* op, const std::vector<int>& order) {
  std::vector<Expr> loops(order.size());
  std::vector<Expr> sizes;
  const size_t outer = op->sizes.size();
  for (size_t k = 0; k < order.size(); ++k) {
    const Expr extent = ExtentOf(*op, order[k]);
    loops[order[k]] = Expr::Loop(static_cast<int>(k), extent);
    sizes.push_back(extent);
  }
  SubstituteLoops(op, loops);
  op->sizes.assign(sizes.begin(), sizes.begin() + outer);
  op->reduce_sizes.assign(sizes.begin() + outer, sizes.end());
}

void SortLoops(LoopOp* op) {
  const Expr* leading = LeadingIndex(*op);
  if (leading == nullptr) return;
  const int outer = static_cast<int>(op->sizes.size());
  std::vector<int> order(LoopCount(*op));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> strides;
  for (int loop = 0; loop < LoopCount(*op); ++loop) strides.push_back(StrideHint(*leading, loop));
  const auto before = [&](int a, int b) {
    // A loop that the leading index does not see goes outside.
    const int64_t x = strides[a] == 0 ? INT64_MAX : strides[a];
    const int64_t y = strides[b] == 0 ? INT64_MAX : strides[b];
    return x > y;
  };
  std::stable_sort(order.begin(), order.begin() + outer, before);
  // The result of an arg-reduction counts its reduced loops in their given order.
  const bool keeps_order =
      std::any_of(op->reductions.begin(), op->reductions.end(), [](const Reduction& r) {
        return r.kind == ReduceKind::kArgMin || r.kind == ReduceKind::kArgMax;
      });
  if (!keeps_order) std::stable_sort(order.begin() + outer, order.end(), before);
  if (!std::is_sorted(order.begin(), order.end())) Permute(op, order);
}

// Drops loops of extent 1 (their variable is 0 already).
void DropUnitLoops(LoopOp* op) {
  std::vector<Expr> loops, sizes, reduce_sizes;
  int next = 0;
  bool dropped = false;
  const bool keep_one = !op->reductions.empty();
  int reduce_left = 0;
  for (const Expr& size : op->reduce_sizes) reduce_left += size.Is(1) ? 0 : 1;
  for (int loop = 0; loop < LoopCount(*op); ++loop) {
    const bool is_reduce = loop >= static_cast<int>(op->sizes.size());
    const Expr extent = ExtentOf(*op, loop);
    // A reduction keeps at least one reduced loop.
    const bool last_chance = is_reduce && keep_one && reduce_left == 0 && reduce_sizes.empty();
    if (extent.Is(1) && !last_chance) {
      loops.push_back(Expr(0));
      dropped = true;
      continue;
    }
    loops.push_back(Expr::Loop(next++, extent));
    (is_reduce ? reduce_sizes : sizes).push_back(extent);
  }
  if (!dropped) return;
  SubstituteLoops(op, loops);
  op->sizes = std::move(sizes);
  op->reduce_sizes = std::move(reduce_sizes);
}

void MergeLoops(LoopOp* op) {
  for (int loop = 0; loop + 1 < LoopCount(*op);) {
    const int outer = static_cast<int>(op->sizes.size());
    if (loop + 1 == outer) {  // an independent and a reduced loop stay apart
      ++loop;
      continue;
    }
    std::vector<Expr> exprs;
    ForEachExpr(static_cast<const LoopOp&>(*op), [&](const Expr& e) { exprs.push_back(e); });
    const Expr a = ExtentOf(*op, loop), b = ExtentOf(*op, loop + 1);
    if (!CanMergeLoops(exprs, loop, a, b)) {
      ++loop;
      continue;
    }
    std::vector<Expr> loops;
    const int count = LoopCount(*op);
    for (int k = 0; k < count; ++k) {
      if (k == loop) {
        loops.push_back(Expr(0));
      } else if (k == loop + 1) {
        loops.push_back(Expr::Loop(loop, a * b));
      } else {
        loops.push_back(Expr::Loop(k < loop ? k : k - 1, ExtentOf(*op, k)));
      }
    }
    SubstituteLoops(op, loops);
    std::vector<Expr>& sizes = loop < outer ? op->sizes : op->reduce_sizes;
    const int at = loop < outer ? loop : loop - outer;
    sizes[at] = a * b;
    sizes.erase(sizes.begin() + at + 1);
  }
}

bool IsEmpty(const std::vector<Expr>& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.Is(0); });
}

// The value of a reduction over nothing, as an instruction of an otherwise empty block.
Inst EmptyValue(const Reduction& reduction, DType dtype) {
  Inst inst{.kind = InstKind::kConstant, .dtype = dtype};
  switch (reduction.kind) {
    case ReduceKind::kProd:
    case ReduceKind::kAll:
      inst.number = 1;
      inst.integer = 1;
      break;
    default:
      break;
  }
  return inst;
}

// A reduction over no elements stores its neutral element.
void FillEmptyReduction(LoopOp* op) {
  LoopOp fill{.sizes = op->sizes, .origin = op->origin};
  for (const Reduction& reduction : op->reductions) {
    const DType dtype = op->block.insts[reduction.value].dtype;
    for (size_t r = 0; r < reduction.results.size(); ++r) {
      if (reduction.results[r] < 0) continue;
      fill.block.insts.push_back(EmptyValue(reduction, dtype));
      fill.stores.push_back({reduction.results[r], reduction.indices[r],
                             static_cast<int>(fill.block.insts.size()) - 1});
    }
  }
  *op = std::move(fill);
}

// Afterwards no loop has extent 0.
void RemoveEmptyLoops(Program* program) {
  std::vector<Operation> kept;
  for (Operation& operation : program->operations) {
    if (auto* op = std::get_if<LoopOp>(&operation)) {
      if (IsEmpty(op->sizes)) continue;
      if (IsEmpty(op->reduce_sizes)) FillEmptyReduction(op);
    }
    kept.push_back(std::move(operation));
  }
  program->operations = std::move(kept);
}

}  // namespace

std::vector<int> LoadOrder(const LoopOp& op) {
  std::vector<int> order(LoopCount(op));
  std::iota(order.begin(), order.end(), 0);
  const Expr* leading = LeadingIndex(op);
  if (leading == nullptr) return order;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const int64_t x = StrideHint(*leading, a), y = StrideHint(*leading, b);
    return (x == 0 ? INT64_MAX : x) > (y == 0 ? INT64_MAX : y);
  });
  return order;
}

void NormalizeLoops(Program* program) {
  RemoveEmptyLoops(program);
  for (Operation& operation : program->operations) {
    auto* op = std::get_if<LoopOp>(&operation);
    if (op == nullptr) continue;
    DropUnitLoops(op);
    SortLoops(op);
    MergeLoops(op);
  }
}

}  // namespace tensord::compiler
