#include "compiler/schedule/access.h"

#include <algorithm>
#include <numeric>

namespace tensord::compiler {
namespace {

// The ranges of coordinates that a store covers, outermost first; empty when they cannot be told.
struct CoordinateRange {
  Expr least, extent;
};

std::vector<CoordinateRange> StoreBox(const BufferInfo& buffer, const Expr& index) {
  if (sym::ContainsKind(index, sym::AtomKind::kIndirect)) return {};
  std::vector<int> order(buffer.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return sym::Hint(buffer.strides[a]) > sym::Hint(buffer.strides[b]);
  });
  std::vector<CoordinateRange> box;
  Expr rest = index;
  for (int d : order) {
    if (buffer.sizes[d].Is(1)) continue;
    const Expr coordinate = sym::FloorDiv(rest, buffer.strides[d]);
    rest = rest - coordinate * buffer.strides[d];
    // Least and greatest value over all loops; only plain sums of loops are understood.
    Expr least = coordinate, greatest = coordinate;
    bool plain = true;
    sym::Substitution to_zero, to_end;
    sym::ForEachSymbol(coordinate, [&](const sym::Atom& atom) {
      if (atom.kind != sym::AtomKind::kLoop) return;
      auto c = sym::LinearCoefficient(coordinate, {atom.kind, atom.id});
      plain &= c.has_value() && sym::ProvablyNonNegative(*c);
      to_zero.emplace(sym::SymbolKey{atom.kind, atom.id}, Expr(0));
      to_end.emplace(sym::SymbolKey{atom.kind, atom.id}, atom.args[0] - 1);
    });
    if (!plain) return {};
    least = sym::Substitute(coordinate, to_zero);
    greatest = sym::Substitute(coordinate, to_end);
    box.push_back({least, greatest - least + 1});
  }
  return box;
}

}  // namespace

Accesses AccessesOf(const Operation& operation) {
  Accesses accesses;
  if (const auto* op = std::get_if<LoopOp>(&operation)) {
    for (const Inst& inst : op->block.insts) {
      if (inst.kind == InstKind::kLoad) accesses.reads.insert(inst.buffer);
    }
    for (const Store& store : op->stores) {
      accesses.writes.insert(store.buffer);
      if (store.mode != StoreMode::kAssign) accesses.reads.insert(store.buffer);
    }
    for (const Reduction& reduction : op->reductions) {
      for (BufferId id : reduction.results) {
        if (id >= 0) accesses.writes.insert(id);
      }
    }
    return accesses;
  }
  const auto& call = std::get<ExternOp>(operation);
  ForEachView(call.args, [&](const BufferView& view) { accesses.reads.insert(view.buffer); });
  for (BufferId id : call.results) {
    if (id >= 0) accesses.writes.insert(id);
  }
  for (BufferId id : call.mutated) accesses.writes.insert(id);
  return accesses;
}

bool StoresAreDisjoint(const BufferInfo& buffer, const Expr& a, const Expr& b) {
  const auto x = StoreBox(buffer, a), y = StoreBox(buffer, b);
  if (x.empty() || x.size() != y.size()) return false;
  for (size_t d = 0; d < x.size(); ++d) {
    if (sym::ProvablyNonNegative(y[d].least - (x[d].least + x[d].extent)) ||
        sym::ProvablyNonNegative(x[d].least - (y[d].least + y[d].extent))) {
      return true;
    }
  }
  return false;
}

namespace {

bool WritesConflict(const Program& program, const Operation& a, const Operation& b, BufferId id) {
  const auto *x = std::get_if<LoopOp>(&a), *y = std::get_if<LoopOp>(&b);
  if (x == nullptr || y == nullptr) return true;
  for (const Store& s : x->stores) {
    for (const Store& t : y->stores) {
      if (s.buffer == id && t.buffer == id &&
          !StoresAreDisjoint(program.buffers[id], s.index, t.index)) {
        return true;
      }
    }
  }
  return x->stores.empty() || y->stores.empty();
}

}  // namespace

std::vector<std::set<int>> Predecessors(const Program& program) {
  const int count = static_cast<int>(program.operations.size());
  std::vector<std::set<int>> predecessors(count);
  std::vector<std::vector<int>> writers(program.buffers.size()), readers(program.buffers.size());
  for (int j = 0; j < count; ++j) {
    const Accesses accesses = AccessesOf(program.operations[j]);
    for (BufferId id : accesses.reads) {
      for (int i : writers[id]) predecessors[j].insert(i);
    }
    for (BufferId id : accesses.writes) {
      for (int i : readers[id]) {
        if (i != j) predecessors[j].insert(i);
      }
      for (int i : writers[id]) {
        if (WritesConflict(program, program.operations[i], program.operations[j], id)) {
          predecessors[j].insert(i);
        }
      }
    }
    for (BufferId id : accesses.reads) readers[id].push_back(j);
    for (BufferId id : accesses.writes) writers[id].push_back(j);
  }
  return predecessors;
}

int64_t BufferBytes(const BufferInfo& buffer) {
  int64_t elements = 1;
  for (const Expr& size : buffer.sizes) elements *= sym::Hint(size);
  return elements * ItemSize(buffer.dtype);
}

}  // namespace tensord::compiler
