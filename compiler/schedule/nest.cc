// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/nest.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <climits>
#include <map>

#include "compiler/schedule/access.h"
#include "compiler/schedule/align.h"
#include "compiler/schedule/loop_order.h"
#include "compiler/schedule/reject.h"

namespace tensord::compiler {
namespace {

bool IsPlainReduction(const LoopOp& op) {
  return std::all_of(op.reductions.begin(), op.reductions.end(), [](const Reduction& r) {
    return r.kind != ReduceKind::kArgMax && r.kind != ReduceKind::kArgMin &&
           r.kind != ReduceKind::kWelford && r.kind != ReduceKind::kOnlineSoftmax;
  });
}

// All reduced loops lie outside of the independent ones.
bool ReducesOutermost(const LoopOp& op) {
  const std::vector<int> order = LoadOrder(op);
  return std::all_of(order.begin(), order.begin() + op.reduce_sizes.size(),
                     [&](int loop) { return loop >= static_cast<int>(op.sizes.size()); });
}

// Columns of Welford's states that a sweep over rows can keep.
bool SweepsWelford(const LoopOp& op, const DeviceTraits& device) {
  return device.finishes_columns && !op.sizes.empty() && ReducesOutermost(op) &&
         sym::Hint(sym::Product(op.reduce_sizes)) >= device.least_rows_for_sweep &&
         std::all_of(op.reductions.begin(), op.reductions.end(),
                     [](const Reduction& r) { return r.kind == ReduceKind::kWelford; });
}

bool HasAtomicStore(const LoopOp& op) {
  return std::any_of(op.stores.begin(), op.stores.end(),
                     [](const Store& s) { return s.mode != StoreMode::kAssign; });
}

bool HasIndirectStore(const LoopOp& op) {
  return std::any_of(op.stores.begin(), op.stores.end(), [](const Store& s) {
    return sym::ContainsKind(s.index, sym::AtomKind::kIndirect);
  });
}

// One access of a buffer by a member.
struct Access {
  int member;
  Expr index;
  bool is_store;
  bool is_result;      // of a reduction
  bool is_plain;       // a store in kAssign mode
  AccessBox box = {};  // of a store into a buffer that has others
};

std::map<BufferId, std::vector<Access>> CollectAccesses(const Nest& nest) {
  std::map<BufferId, std::vector<Access>> accesses;
  for (int m = 0; m < static_cast<int>(nest.members.size()); ++m) {
    const LoopOp& op = nest.members[m].loops;
    for (const Inst& inst : op.block.insts) {
      if (inst.kind == InstKind::kLoad) {
        accesses[inst.buffer].push_back({m, inst.index, false, false, false});
      }
    }
    for (const Store& store : op.stores) {
      accesses[store.buffer].push_back(
          {m, store.index, true, false, store.mode == StoreMode::kAssign});
    }
    for (const Reduction& reduction : op.reductions) {
      for (size_t r = 0; r < reduction.results.size(); ++r) {
        if (reduction.results[r] >= 0) {
          accesses[reduction.results[r]].push_back({m, reduction.indices[r], true, true, true});
        }
      }
    }
  }
  return accesses;
}

// later runs at least `gap` positions after earlier, rounded up to a position of its kind.
struct Constraint {
  int earlier, later, gap;
  bool reads = true;  // what earlier writes; false: later overwrites what earlier reads
};

// Column statements run behind all rows, on finished columns. One of x and y is one.
absl::Status CheckColumnStatement(const NestMember& x, const Access& a, const NestMember& y,
                                  const Access& b, std::vector<Constraint>* constraints) {
  if (!x.has_outer) return Reject("needs what follows from all rows");
  const bool reduces_columns = x.reduces_outer && !x.reduces_inner && x.has_inner;
  if (a.is_store && !(a.is_result && reduces_columns)) {
    return Reject("reads an element of a row behind all rows");
  }
  // Only a column's own reduction is known to be done with all rows.
  if (!a.is_store && !reduces_columns) return Reject("overwrites what other rows read");
  if (!(a.index == b.index)) return Reject("touches another element than the column's own");
  constraints->push_back({a.member, b.member, 1, a.is_store});
  return absl::OkStatus();
}

// Legality of every pair of accesses to one buffer, and what it asks of positions.
absl::Status CheckPair(const Nest& nest, const Access& a, const Access& b,
                       std::vector<Constraint>* constraints) {
  if (!a.is_store && !b.is_store) return absl::OkStatus();
  const NestMember &x = nest.members[a.member], &y = nest.members[b.member];
  if (a.is_store && b.is_store) {
    if (AreDisjoint(a.box, b.box)) return absl::OkStatus();
    return Reject("both write one buffer");
  }
  if (x.has_outer != y.has_outer) return CheckColumnStatement(x, a, y, b, constraints);
  if (a.is_store) {  // b reads what a wrote
    // Indirect symbols are numbered for each member, so equal ones may differ.
    if (!a.is_plain || sym::ContainsKind(a.index, sym::AtomKind::kIndirect)) {
      return Reject("reads what a scatter writes");
    }
    if (x.reduces_outer) return Reject("needs a reduction over all rows");
    if (nest.shape == NestShape::kFlat && x.reduces_inner) {
      return Reject("needs a reduction over all elements");
    }
    if (!(a.index == b.index)) return Reject("reads another element than was written");
    if (!x.has_inner || x.reduces_inner) {
      constraints->push_back({a.member, b.member, x.has_inner ? 1 : (y.has_inner ? 1 : 0)});
      return absl::OkStatus();
    }
    if (!y.has_inner) return Reject("a row statement reads an element of the row");
    constraints->push_back({a.member, b.member, 0});
    return absl::OkStatus();
  }
  // b overwrites what a read.
  if (b.is_result) return Reject("a reduction overwrites what is read");
  if (y.reduces_outer || !b.is_plain || sym::ContainsKind(b.index, sym::AtomKind::kIndirect))
    return Reject("overwrites what is read");
  if (!(a.index == b.index)) return Reject("overwrites another element than was read");
  constraints->push_back({a.member, b.member, 0, /*reads=*/false});
  return absl::OkStatus();
}

// The same for all accesses of one buffer.
absl::Status CheckAccesses(const Nest& nest, const BufferInfo& buffer,
                           std::vector<Access>* accesses, std::vector<Constraint>* constraints) {
  const auto stores =
      std::count_if(accesses->begin(), accesses->end(), [](const Access& a) { return a.is_store; });
  if (stores == 0) return absl::OkStatus();
  if (stores > 1) {
    for (Access& access : *accesses) {
      if (access.is_store) access.box = AccessBoxOf(buffer, access.index);
    }
  }
  for (const Access& a : *accesses) {
    for (const Access& b : *accesses) {
      if (a.member >= b.member) continue;
      TENSORD_RETURN_IF_ERROR(CheckPair(nest, a, b, constraints));
    }
  }
  return absl::OkStatus();
}

// Least positions that satisfy the constraints (members are in program order, so one sweep is
// enough).
absl::Status AssignPositions(const std::vector<Constraint>& constraints, Nest* nest) {
  for (size_t m = 0; m < nest->members.size(); ++m) {
    NestMember& member = nest->members[m];
    int position = member.has_inner ? 1 : 0;
    for (const Constraint& c : constraints) {
      if (c.later == static_cast<int>(m)) {
        position = std::max(position, nest->members[c.earlier].position + c.gap);
      }
    }
    if ((position % 2 == 1) != member.has_inner) ++position;
    member.position = position;
  }
  return absl::OkStatus();
}

// Rows that are reduced along and across hold an accumulator for every column.
absl::Status CheckMixedSweep(const Nest& nest, const DeviceTraits& device) {
  bool across = false, along = false;
  for (const NestMember& member : nest.members) {
    across |= member.reduces_outer && !member.reduces_inner && member.has_inner;
    along |= member.reduces_inner && !member.reduces_outer;
  }
  if (across && along && sym::Hint(sym::Product(nest.inner)) > device.most_columns_of_mixed_sweep) {
    return Reject("the rows are too long to be reduced along and across at once");
  }
  return absl::OkStatus();
}

// Who scans a row keeps nothing over rows, where the device says so.
absl::Status CheckScannedRows(const Nest& nest, const DeviceTraits& device) {
  bool scans = false, over_rows = false;
  for (const NestMember& member : nest.members) {
    scans |= Scans(member.loops);
    over_rows |= member.reduces_outer;
  }
  if (scans && over_rows && !device.reduces_over_scanned_rows) {
    return Reject("rows that are scanned are not reduced over");
  }
  return absl::OkStatus();
}

// A column statement belongs to a nest for the columns that it reads.
absl::Status CheckColumnsRead(const Nest& nest, const std::vector<Constraint>& constraints) {
  for (int m = 0; m < static_cast<int>(nest.members.size()); ++m) {
    if (nest.members[m].has_outer) continue;
    const bool reads = std::any_of(constraints.begin(), constraints.end(), [&](const auto& c) {
      return c.later == m && c.reads &&
             (!nest.members[c.earlier].has_outer ||
              !nest.members[c.earlier].loops.reductions.empty());
    });
    if (!reads) return Reject("iteration spaces differ");
  }
  return absl::OkStatus();
}

// Columns of Welford's states lie in registers, where a thread owns few columns: nothing else may
// want the whole row.
absl::Status CheckWelfordSweep(const Nest& nest) {
  bool states = false, columns = true;
  for (const NestMember& member : nest.members) {
    if (!member.has_outer) continue;
    states |= member.reduces_outer && !IsPlainReduction(member.loops);
    columns &= member.has_inner && !member.reduces_inner && member.position == 1;
  }
  if (states && !columns) return Reject("columns' moments need rows of their own");
  return absl::OkStatus();
}

// Whether some read what is stored of the buffer as they have it at hand, and others as they find
// it in memory: later passes, or who is outside. `positions`: of the nest's operations.
bool IsReadInTwoWays(const std::map<int, int>& positions, const AccessIndex& accesses,
                     BufferId id) {
  int written = INT_MAX, first = INT_MAX, last = INT_MIN;
  bool is_read_outside = false;
  for (const int op : accesses.Users(id)) {
    const auto here = positions.find(op);
    const Accesses& of = accesses.Of(op);
    const bool reads = of.reads.count(id) != 0;
    if (here == positions.end()) {
      is_read_outside |= reads;
      continue;
    }
    if (of.writes.count(id) != 0) written = std::min(written, here->second);
    if (!reads) continue;
    first = std::min(first, here->second);
    last = std::max(last, here->second);
  }
  const bool is_read_here = first != INT_MAX;
  return is_read_here && (is_read_outside || (first <= written && last > written));
}

// Buffers that no one outside needs, and narrow ones that are read both as they are at hand and
// from memory, by other passes or outside.
void FindLocals(const Program& program, const AccessIndex& accesses, Nest* nest) {
  std::map<int, int> positions;  // of the operations
  std::set<BufferId> written, swept;
  for (const NestMember& member : nest->members) {
    positions[member.op] = member.position;
    const Accesses& of = accesses.Of(member.op);
    written.insert(of.writes.begin(), of.writes.end());
    if (!member.reduces_outer) continue;
    // Results over all rows exist only after the sweep; they stay in memory.
    for (const Reduction& r : member.loops.reductions)
      swept.insert(r.results.begin(), r.results.end());
  }
  for (BufferId id : written) {
    const std::vector<int>& users = accesses.Users(id);
    if (program.buffers[id].kind == BufferKind::kComputed && !accesses.IsOutput(id) &&
        swept.count(id) == 0 &&
        std::all_of(users.begin(), users.end(), [&](int op) { return positions.count(op) != 0; })) {
      nest->local.insert(id);
      continue;
    }
    const DType storage = program.buffers[id].dtype;
    const bool is_narrow = IsFloating(storage) && storage != ComputeType(storage);
    if (is_narrow && IsReadInTwoWays(positions, accesses, id)) nest->rounded.insert(id);
  }
}

// Which are never scanned in parts.
bool ScansProducts(const LoopOp& op) {
  return std::ranges::any_of(op.block.insts, [](const Inst& inst) {
    return inst.kind == InstKind::kScan && inst.op == Op::k_mul;
  });
}

}  // namespace

bool ReducesRows(const LoopOp& op, const DeviceTraits& device) {
  if (!IsPlainReduction(op)) return !SweepsWelford(op, device);
  return LoadOrder(op).back() >= static_cast<int>(op.sizes.size());
}

GroupShape ShapeOf(const LoopOp& op, const DeviceTraits& device) {
  const Expr independent = sym::Product(op.sizes), reduced = sym::Product(op.reduce_sizes);
  if (op.reduce_sizes.empty()) {
    if (!device.parallel_scatter && (HasAtomicStore(op) || HasIndirectStore(op))) {
      return {NestShape::kBlocked, Expr(1), independent};
    }
    return {NestShape::kFlat, Expr(1), independent};
  }
  if (Scans(op)) {
    const int64_t length = sym::Hint(reduced);
    const bool has_parts = length >= device.long_scan && !ScansProducts(op);
    const int64_t least_columns =
        has_parts ? device.least_columns_of_long_scan : device.least_columns_of_scan;
    const bool has_few =
        length >= device.least_scan_across && sym::Hint(independent) < least_columns;
    if (op.sizes.empty() || ReducesRows(op, device) || has_few) {
      return {NestShape::kTiled, independent, reduced};
    }
    return {NestShape::kBlocked, Expr(1), independent * reduced};
  }
  if (op.sizes.empty()) {
    const bool one_row =
        !IsPlainReduction(op) || sym::Hint(reduced) <= device.most_elements_of_one_row;
    return {one_row ? NestShape::kTiled : NestShape::kFlat, Expr(1), reduced};
  }
  if (ReducesRows(op, device)) return {NestShape::kTiled, independent, reduced};
  // The innermost loop is independent: sweep over rows when all reduced loops come first.
  if (ReducesOutermost(op) && sym::Hint(reduced) >= device.least_rows_for_sweep) {
    return {NestShape::kTiled, reduced, independent};
  }
  return {NestShape::kBlocked, Expr(1), independent * reduced};
}

absl::StatusOr<GroupShape> CommonShape(const GroupShape& a, const GroupShape& b,
                                       const DeviceTraits& device) {
  if (a.shape == NestShape::kBlocked || b.shape == NestShape::kBlocked) {
    return Reject("a blocked nest stays alone");
  }
  const bool both_tiled = a.shape == NestShape::kTiled && b.shape == NestShape::kTiled;
  if (both_tiled && a.outer == b.outer && a.inner == b.inner) return a;
  // One row is a flat space to any other shape.
  const auto is_flat = [](const GroupShape& s) {
    return s.shape == NestShape::kFlat || s.outer.Is(1);
  };
  if (!is_flat(a) && !is_flat(b)) return Reject("iteration spaces differ");
  if (is_flat(a) && is_flat(b)) {
    if (!(a.inner == b.inner)) return Reject("iteration spaces differ");
    return a.shape == NestShape::kTiled ? a : b;
  }
  const GroupShape &tiled = is_flat(a) ? b : a, &flat = is_flat(a) ? a : b;
  if (flat.inner == tiled.outer * tiled.inner) {
    // A few long rows would leave most threads idle in the flat part.
    if (sym::Hint(tiled.outer) < device.few_rows && sym::Hint(tiled.inner) > device.long_row) {
      return Reject("too few rows to run the flat part in parallel");
    }
    return tiled;
  }
  if (flat.inner == tiled.outer) return tiled;
  if (flat.inner == tiled.inner && device.finishes_columns) return tiled;
  return Reject("iteration spaces differ");
}

namespace {

// The nest of one operation that runs in blocks: its loops in memory order, the vector loop last.
Nest BlockedNest(const Program& program, int op) {
  Nest nest{.shape = NestShape::kBlocked};
  LoopOp loops = std::get<LoopOp>(program.operations[op]);
  const int outer = static_cast<int>(loops.sizes.size());
  const int count = outer + static_cast<int>(loops.reduce_sizes.size());
  std::vector<int> order;
  if (loops.reduce_sizes.empty()) {
    for (int k = 0; k < count; ++k) order.push_back(k);
  } else {
    // Independent loops but the last, then reduced loops, then the vector loop.
    const int vector_loop = LoadOrder(loops).back();
    for (int k = 0; k < outer; ++k) {
      if (k != vector_loop) order.push_back(k);
    }
    for (int k = outer; k < count; ++k) order.push_back(k);
    order.push_back(vector_loop);
  }
  std::vector<Expr> renamed(count);
  for (int k = 0; k < count; ++k) {
    const int from = order[k];
    const Expr extent = from < outer ? loops.sizes[from] : loops.reduce_sizes[from - outer];
    renamed[from] = Expr::Loop(k, extent);
    nest.inner.push_back(extent);
  }
  // For a reduction all independent loops but the vector loop run outside.
  if (!loops.reduce_sizes.empty()) {
    nest.outer.assign(nest.inner.begin(), nest.inner.begin() + outer - 1);
    nest.inner.erase(nest.inner.begin(), nest.inner.begin() + outer - 1);
  }
  NestMember member{.op = op, .loops = std::move(loops)};
  // SubstituteLoops maps old numbers to new ones at once.
  sym::Substitution with;
  for (int k = 0; k < count; ++k) with.emplace(sym::SymbolKey{sym::AtomKind::kLoop, k}, renamed[k]);
  for (Inst& inst : member.loops.block.insts) inst.index = sym::Substitute(inst.index, with);
  for (Store& store : member.loops.stores) store.index = sym::Substitute(store.index, with);
  for (Reduction& r : member.loops.reductions) {
    for (Expr& index : r.indices) index = sym::Substitute(index, with);
  }
  member.reduces_inner = !member.loops.reductions.empty();
  nest.members.push_back(std::move(member));
  return nest;
}

}  // namespace

absl::StatusOr<Nest> BuildNest(const Program& program, const AccessIndex& accesses,
                               const std::vector<int>& ops, const GroupShape& shape,
                               const DeviceTraits& device) {
  if (shape.shape == NestShape::kBlocked) return BlockedNest(program, ops[0]);
  Nest nest;
  TENSORD_RETURN_IF_ERROR(AlignLoops(program, ops, shape, device, &nest));
  TENSORD_RETURN_IF_ERROR(CheckMixedSweep(nest, device));
  TENSORD_RETURN_IF_ERROR(CheckScannedRows(nest, device));
  std::vector<Constraint> constraints;
  auto all_accesses = CollectAccesses(nest);
  for (auto& [buffer, of_buffer] : all_accesses) {
    TENSORD_RETURN_IF_ERROR(CheckAccesses(nest, program.buffers[buffer], &of_buffer, &constraints));
  }
  TENSORD_RETURN_IF_ERROR(CheckColumnsRead(nest, constraints));
  TENSORD_RETURN_IF_ERROR(AssignPositions(constraints, &nest));
  TENSORD_RETURN_IF_ERROR(CheckWelfordSweep(nest));
  std::stable_sort(
      nest.members.begin(), nest.members.end(),
      [](const NestMember& a, const NestMember& b) { return a.position < b.position; });
  FindLocals(program, accesses, &nest);
  return nest;
}

std::string ToString(const Nest& nest) {
  static constexpr const char* kShapes[] = {"flat", "tiled", "blocked"};
  std::string text =
      absl::StrCat("nest ", kShapes[static_cast<int>(nest.shape)], " outer ",
                   sym::ToString(nest.outer), " inner ", sym::ToString(nest.inner), "\n");
  for (const NestMember& member : nest.members) {
    absl::StrAppend(
        &text, "  at ", member.position, " op ", member.op, member.has_inner ? "" : " row",
        member.has_outer ? "" : " column", member.reduces_outer ? " reduces outer" : "",
        member.reduces_inner ? " reduces inner" : "", "  # ", member.loops.origin, "\n");
  }
  return text;
}

}  // namespace tensord::compiler
