// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/normalize_loops.h"

#include <algorithm>
#include <numeric>

#include "compiler/loop_ir/rewrite.h"
#include "compiler/schedule/loop_order.h"

namespace tensord::compiler {
namespace {

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
  const std::vector<int64_t> strides = LeadingStrides(*op);
  if (strides.empty()) return;
  const int outer = static_cast<int>(op->sizes.size());
  std::vector<int> order(LoopCount(*op));
  std::iota(order.begin(), order.end(), 0);
  const auto before = [&](int a, int b) { return strides[a] > strides[b]; };
  std::stable_sort(order.begin(), order.begin() + outer, before);
  // The result of an arg-reduction counts its reduced loops in their given order, and a scan runs
  // in it.
  const bool keeps_order =
      Scans(*op) ||
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
  const bool keep_one = !op->reduce_sizes.empty();
  int reduce_left = 0;
  for (const Expr& size : op->reduce_sizes) reduce_left += size.Is(1) ? 0 : 1;
  for (int loop = 0; loop < LoopCount(*op); ++loop) {
    const bool is_reduce = loop >= static_cast<int>(op->sizes.size());
    const Expr extent = ExtentOf(*op, loop);
    // A reduction keeps at least one reduced loop, and a scan one of its own.
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
      if (IsEmpty(op->sizes) || (Scans(*op) && IsEmpty(op->reduce_sizes))) continue;
      if (IsEmpty(op->reduce_sizes)) FillEmptyReduction(op);
    }
    kept.push_back(std::move(operation));
  }
  program->operations = std::move(kept);
}

}  // namespace

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
