// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/unroll_parts.h"

#include <map>
#include <optional>
#include <utility>

#include "compiler/loop_ir/rewrite.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/reduce_kinds.h"

namespace tensord::compiler {
namespace {

// The loop of extent 2 that an index value is.
std::optional<int> LoopOfParts(const Inst& inst) {
  if (inst.kind != InstKind::kIndex) return std::nullopt;
  const sym::Atom* atom = inst.index.AsAtom();
  if (atom == nullptr || atom->kind != sym::AtomKind::kLoop || !atom->args[0].Is(2)) {
    return std::nullopt;
  }
  return atom->id;
}

// The loop that a choice depends on: where(loop == 0, a, b).
std::optional<int> FindLoop(const Block& block) {
  for (const Inst& inst : block.insts) {
    if (inst.kind != InstKind::kCompute || inst.op != Op::k_where) continue;
    const Inst& condition = block.insts[inst.args[0]];
    if (condition.kind != InstKind::kCompute || condition.op != Op::k_eq) continue;
    const Inst& number = block.insts[condition.args[1]];
    if (number.kind != InstKind::kConstant || number.integer != 0) continue;
    if (const auto loop = LoopOfParts(block.insts[condition.args[0]])) return loop;
  }
  return std::nullopt;
}

// Copies of a block's instructions in which choices are made; equal ones are one.
class Copier {
 public:
  explicit Copier(const Block& from) : from_(from) {}

  // By instruction of `from`: where its copy is, with the loop at that number.
  std::vector<int> Copy(int loop, int64_t at) {
    sym::Substitution with{{{sym::AtomKind::kLoop, loop}, Expr(at)}};
    std::vector<int> places;
    for (Inst inst : from_.insts) {
      for (int& arg : inst.args) arg = places[arg];
      if (inst.guard >= 0) inst.guard = places[inst.guard];
      inst.index = sym::Substitute(inst.index, with);
      const int symbol = inst.symbol;
      places.push_back(Place(std::move(inst)));
      const Inst& placed = to_.insts[places.back()];
      if (symbol >= 0) {
        with[{sym::AtomKind::kIndirect, symbol}] = Expr::Indirect(placed.symbol, placed.index);
      }
    }
    return places;
  }

  int Add(Inst inst) { return Place(std::move(inst)); }
  const Inst& At(int place) const { return to_.insts[place]; }
  Block Take() { return std::move(to_); }

 private:
  int Place(Inst inst) {
    if (inst.kind == InstKind::kIndex) {
      if (const auto number = inst.index.AsConstant()) {
        inst = {.kind = InstKind::kConstant, .dtype = inst.dtype, .integer = *number};
      }
    }
    if (inst.kind == InstKind::kCompute && inst.op == Op::k_eq) {
      const Inst &a = to_.insts[inst.args[0]], &b = to_.insts[inst.args[1]];
      if (IsInteger(a) && IsInteger(b)) {
        inst = {.kind = InstKind::kConstant, .dtype = kBool, .integer = a.integer == b.integer};
      }
    }
    if (inst.kind == InstKind::kCompute && inst.op == Op::k_where) {
      const Inst& condition = to_.insts[inst.args[0]];
      if (condition.kind == InstKind::kConstant) return inst.args[condition.integer != 0 ? 1 : 2];
    }
    if (inst.kind == InstKind::kIndirect) inst.symbol = -1;
    const auto [it, is_new] = known_.emplace(KeyOf(inst), static_cast<int>(to_.insts.size()));
    if (is_new) {
      if (inst.kind == InstKind::kIndirect) inst.symbol = symbols_++;
      to_.insts.push_back(std::move(inst));
    }
    return it->second;
  }

  static bool IsInteger(const Inst& inst) {
    return inst.kind == InstKind::kConstant && inst.dtype == kInt64;
  }

  const Block& from_;
  Block to_;
  std::map<InstKey, int> known_;
  int symbols_ = 0;
};

// The operation's loops without one, as expressions of those that are left.
std::vector<Expr> WithoutLoop(LoopOp* op, int loop) {
  std::vector<Expr> loops;
  for (int k = 0; k < LoopCount(*op); ++k) {
    loops.push_back(k == loop ? Expr(0) : Expr::Loop(k < loop ? k : k - 1, ExtentOf(*op, k)));
  }
  const int outer = static_cast<int>(op->sizes.size());
  auto& sizes = loop < outer ? op->sizes : op->reduce_sizes;
  sizes.erase(sizes.begin() + (loop < outer ? loop : loop - outer));
  return loops;
}

void DropLoop(int loop, LoopOp* op) {
  const std::vector<Expr> loops = WithoutLoop(op, loop);
  SubstituteLoops(op, loops);
}

bool Checks(const Inst& inst) { return inst.kind == InstKind::kCheck || inst.rule.is_checked; }

// What nothing reads any more goes. False where that would be a check of what data gives,
// which fails the run whoever reads what it is for.
bool DropDeadInsts(LoopOp* op) {
  std::vector<Inst>& insts = op->block.insts;
  std::vector<bool> used(insts.size(), false);
  std::map<int, int> maker;  // of each symbol
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].kind == InstKind::kIndirect) maker[insts[i].symbol] = static_cast<int>(i);
  }
  const auto use_symbols = [&](const Expr& e) {
    sym::ForEachSymbol(e, [&](const sym::Atom& atom) {
      if (atom.kind == sym::AtomKind::kIndirect) used[maker.at(atom.id)] = true;
    });
  };
  for (const Store& store : op->stores) {
    used[store.value] = true;
    if (store.guard >= 0) used[store.guard] = true;
    use_symbols(store.index);
  }
  for (const Reduction& reduction : op->reductions) {
    used[reduction.value] = true;
    for (const Expr& index : reduction.indices) use_symbols(index);
  }
  for (int i = static_cast<int>(insts.size()) - 1; i >= 0; --i) {
    if (!used[i]) continue;
    for (const int arg : insts[i].args) used[arg] = true;
    if (insts[i].guard >= 0) used[insts[i].guard] = true;
    use_symbols(insts[i].index);
  }
  for (size_t i = 0; i < insts.size(); ++i) {
    if (!used[i] && Checks(insts[i])) return false;
  }
  std::vector<int> places;
  std::vector<Inst> kept;
  for (size_t i = 0; i < insts.size(); ++i) {
    places.push_back(static_cast<int>(kept.size()));
    if (!used[i]) continue;
    for (int& arg : insts[i].args) arg = places[arg];
    if (insts[i].guard >= 0) insts[i].guard = places[insts[i].guard];
    kept.push_back(std::move(insts[i]));
  }
  insts = std::move(kept);
  for (Store& store : op->stores) {
    store.value = places[store.value];
    if (store.guard >= 0) store.guard = places[store.guard];
  }
  for (Reduction& reduction : op->reductions) reduction.value = places[reduction.value];
  return true;
}

// Operations without a loop of the given one; nothing where a check would be lost.
using Unrolled = std::optional<LoopOp>;

Unrolled Finished(int loop, LoopOp op) {
  DropLoop(loop, &op);
  return DropDeadInsts(&op) ? Unrolled(std::move(op)) : std::nullopt;
}

Unrolled UnrollStores(int loop, LoopOp op) {
  Copier copier(op.block);
  const std::vector<int> of_part[] = {copier.Copy(loop, 0), copier.Copy(loop, 1)};
  std::vector<Store> stores;
  for (const Store& store : op.stores) {
    for (int part = 0; part < 2; ++part) {
      Store copy = store;
      copy.value = of_part[part][store.value];
      if (store.guard >= 0) copy.guard = of_part[part][store.guard];
      copy.index = sym::Substitute(store.index, {{{sym::AtomKind::kLoop, loop}, Expr(part)}});
      stores.push_back(std::move(copy));
    }
  }
  op.stores = std::move(stores);
  op.block = copier.Take();
  return Finished(loop, std::move(op));
}

Unrolled UnrollTerms(int loop, Op combine, LoopOp op) {
  Copier copier(op.block);
  Reduction& reduction = op.reductions[0];
  const int first = copier.Copy(loop, 0)[reduction.value];
  const int second = copier.Copy(loop, 1)[reduction.value];
  reduction.value = copier.Add({.kind = InstKind::kCompute,
                                .op = combine,
                                .dtype = copier.At(first).dtype,
                                .args = {first, second}});
  op.block = copier.Take();
  return Finished(loop, std::move(op));
}

// The operation at one number of the loop.
Unrolled At(int loop, int64_t at, LoopOp op) {
  Copier copier(op.block);
  const std::vector<int> places = copier.Copy(loop, at);
  op.block = copier.Take();
  for (Reduction& reduction : op.reductions) {
    reduction.value = places[reduction.value];
    for (Expr& index : reduction.indices) {
      index = sym::Substitute(index, {{{sym::AtomKind::kLoop, loop}, Expr(at)}});
    }
  }
  return Finished(loop, std::move(op));
}

// Appends what an operation becomes.
void Unroll(LoopOp op, std::vector<Operation>* to) {
  for (;;) {
    const std::optional<int> loop = FindLoop(op.block);
    const int outer = static_cast<int>(op.sizes.size());
    if (!loop) break;
    // Both parts are elements of one prefix, the second behind the first.
    if (Scans(op) && *loop >= outer) break;
    Unrolled next;
    if (op.reductions.empty()) {
      next = UnrollStores(*loop, op);
    } else if (*loop < outer) {
      Unrolled first = At(*loop, 0, op);
      next = At(*loop, 1, op);
      if (first && next) Unroll(*std::move(first), to);
      if (!first) break;
    } else {
      const auto combine = CombineOp(op.reductions[0].kind);
      if (op.reductions.size() != 1 || op.reduce_sizes.size() < 2 || !combine) break;
      next = UnrollTerms(*loop, *combine, op);
    }
    if (!next) break;
    op = *std::move(next);
  }
  to->push_back(std::move(op));
}

}  // namespace

void UnrollParts(Program* program) {
  std::vector<Operation> operations;
  for (Operation& operation : program->operations) {
    if (auto* op = std::get_if<LoopOp>(&operation)) {
      Unroll(std::move(*op), &operations);
    } else {
      operations.push_back(std::move(operation));
    }
  }
  program->operations = std::move(operations);
}

}  // namespace tensord::compiler
