// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/unroll_reductions.h"

#include <optional>

#include "compiler/schedule/nest.h"
#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kMostTerms = 8;
constexpr size_t kMostInsts = 64;  // of the unrolled body

// Appends a copy of `body` with its loops substituted; returns where instruction 0 went.
int AppendCopy(const Block& body, const sym::Substitution& loops, int first_symbol, Block* to) {
  const int base = static_cast<int>(to->insts.size());
  sym::Substitution with = loops;
  for (Inst inst : body.insts) {
    for (int& arg : inst.args) arg += base;
    if (inst.guard >= 0) inst.guard += base;
    if (inst.kind == InstKind::kIndirect) {
      const int renamed = inst.symbol + first_symbol;
      with[{sym::AtomKind::kIndirect, inst.symbol}] = Expr::Indirect(renamed, inst.index);
      inst.symbol = renamed;
    } else {
      inst.index = sym::Substitute(inst.index, with);
    }
    to->insts.push_back(std::move(inst));
  }
  return base;
}

void Unroll(LoopOp* op, Op combine, int64_t terms) {
  const int outer = static_cast<int>(op->sizes.size());
  const Reduction reduction = op->reductions[0];
  Block unrolled;
  int symbols = 0;
  for (const Inst& inst : op->block.insts) symbols += inst.kind == InstKind::kIndirect ? 1 : 0;
  const auto add = [&](Inst inst) {
    inst.dtype = op->block.insts[reduction.value].dtype;
    unrolled.insts.push_back(std::move(inst));
    return static_cast<int>(unrolled.insts.size()) - 1;
  };
  // Sums of floats begin with 0, as eager's: none is -0.
  int total = -1;
  if (combine == Op::k_add && IsFloating(op->block.insts[reduction.value].dtype)) {
    total = add({.kind = InstKind::kConstant});
  }
  for (int64_t term = 0; term < terms; ++term) {
    sym::Substitution loops;
    int64_t rest = term;
    for (int r = static_cast<int>(op->reduce_sizes.size()) - 1; r >= 0; --r) {
      const int64_t extent = *op->reduce_sizes[r].AsConstant();
      loops[{sym::AtomKind::kLoop, outer + r}] = Expr(rest % extent);
      rest /= extent;
    }
    const int base = AppendCopy(op->block, loops, static_cast<int>(term) * symbols, &unrolled);
    const int value = base + reduction.value;
    if (total < 0) {
      total = value;
      continue;
    }
    total = add({.kind = InstKind::kCompute, .op = combine, .args = {total, value}});
  }
  op->block = std::move(unrolled);
  op->stores.push_back({reduction.results[0], reduction.indices[0], total});
  op->reductions.clear();
  op->reduce_sizes.clear();
}

}  // namespace

void UnrollReductions(Program* program) {
  for (Operation& operation : program->operations) {
    auto* op = std::get_if<LoopOp>(&operation);
    if (op == nullptr || op->reductions.size() != 1 || op->sizes.empty()) continue;
    const auto terms = sym::Product(op->reduce_sizes).AsConstant();
    const auto combine = CombineOp(op->reductions[0].kind);
    if (!terms || *terms < 1 || *terms > kMostTerms || !combine || ReducesRows(*op)) continue;
    if (op->block.insts.size() * *terms > kMostInsts) continue;
    Unroll(op, *combine, *terms);
  }
}

}  // namespace tensord::compiler
