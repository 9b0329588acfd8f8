// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/access.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

namespace tensord::compiler {
namespace {

// Begins where `before` has ended, or later.
bool IsBehind(const CoordinateRange& range, const CoordinateRange& before) {
  const auto least = range.least.AsConstant(), first = before.least.AsConstant(),
             extent = before.extent.AsConstant();
  if (least && first && extent) return *least >= *first + *extent;
  return sym::ProvablyNonNegative(range.least - (before.least + before.extent));
}

}  // namespace

Accesses AccessesOf(const LoopOp& loops) {
  Accesses accesses;
  for (const Inst& inst : loops.block.insts) {
    if (inst.kind == InstKind::kLoad) accesses.reads.insert(inst.buffer);
  }
  for (const Store& store : loops.stores) {
    accesses.writes.insert(store.buffer);
    if (store.mode != StoreMode::kAssign) accesses.reads.insert(store.buffer);
  }
  for (const Reduction& reduction : loops.reductions) {
    for (BufferId id : reduction.results) {
      if (id >= 0) accesses.writes.insert(id);
    }
  }
  return accesses;
}

Accesses AccessesOf(const Operation& operation) {
  if (const auto* loops = std::get_if<LoopOp>(&operation)) return AccessesOf(*loops);
  Accesses accesses;
  const auto& call = std::get<ExternOp>(operation);
  ForEachView(call.args, [&](const BufferView& view) { accesses.reads.insert(view.buffer); });
  for (BufferId id : call.results) {
    if (id >= 0) accesses.writes.insert(id);
  }
  for (BufferId id : call.mutated) accesses.writes.insert(id);
  accesses.reads.insert(call.ends_reading.begin(), call.ends_reading.end());
  return accesses;
}

AccessIndex::AccessIndex(const Program& program)
    : users_(program.buffers.size()), is_output_(program.buffers.size(), false) {
  for (int i = 0; i < static_cast<int>(program.operations.size()); ++i) {
    accesses_.push_back(AccessesOf(program.operations[i]));
    const Accesses& accesses = accesses_.back();
    for (BufferId id : accesses.reads) users_[id].push_back(i);
    for (BufferId id : accesses.writes) {
      if (accesses.reads.count(id) == 0) users_[id].push_back(i);
    }
  }
  for (const ProgramOutput& output : program.outputs) {
    if (output.kind == ProgramOutput::kTensor) is_output_[output.view.buffer] = true;
  }
}

StoreBox StoreBoxOf(const BufferInfo& buffer, const Expr& index) {
  if (sym::ContainsKind(index, sym::AtomKind::kIndirect)) return {};
  std::vector<int> order(buffer.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return sym::Hint(buffer.strides[a]) > sym::Hint(buffer.strides[b]);
  });
  StoreBox box;
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

bool AreDisjoint(const StoreBox& a, const StoreBox& b) {
  if (a.empty() || a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (IsBehind(a[d], b[d]) || IsBehind(b[d], a[d])) return true;
  }
  return false;
}

namespace {

// The stores of operations into one buffer.
struct Writer {
  int op;
  std::vector<StoreBox> boxes;  // of all its stores; empty when some elements cannot be told

  static Writer Of(const Program& program, int op, BufferId buffer) {
    Writer writer{.op = op};
    const auto* loop = std::get_if<LoopOp>(&program.operations[op]);
    if (loop == nullptr) return writer;
    for (const Store& store : loop->stores) {
      if (store.buffer != buffer) continue;
      writer.boxes.push_back(StoreBoxOf(program.buffers[buffer], store.index));
      if (writer.boxes.back().empty()) return {.op = op};
    }
    return writer;
  }

  bool Conflicts(const Writer& other) const {
    if (boxes.empty() || other.boxes.empty()) return true;
    for (const StoreBox& a : boxes) {
      for (const StoreBox& b : other.boxes) {
        if (!AreDisjoint(a, b)) return true;
      }
    }
    return false;
  }
};

// Coordinates in one dimension that are covered, as intervals that neither meet nor touch.
class Coverage {
 public:
  bool Meets(int64_t begin, int64_t end) const {
    const auto next = intervals_.lower_bound(end);
    return next != intervals_.begin() && std::prev(next)->second > begin;
  }
  void Add(int64_t begin, int64_t end) {
    auto it = intervals_.upper_bound(end);
    while (it != intervals_.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = intervals_.erase(it);
    }
    intervals_.emplace(begin, end);
  }

 private:
  std::map<int64_t, int64_t> intervals_;  // begin -> end
};

// All writers of one buffer so far. Those of a concatenation's parts, however many, are told apart
// without a look at each.
class Writers {
 public:
  // Calls visit(op) for each writer whose elements the new one may write too; then adds it.
  template <typename Visit>
  void Add(Writer writer, const Visit& visit) {
    const bool apart = !writers_.empty() && !writer.boxes.empty() &&
                       std::all_of(writer.boxes.begin(), writer.boxes.end(),
                                   [this](const StoreBox& box) { return IsDisjoint(box); });
    if (!apart) {
      for (const Writer& other : writers_) {
        if (other.Conflicts(writer)) visit(other.op);
      }
    }
    for (const StoreBox& box : writer.boxes) Cover(box);
    all_told_ &= !writer.boxes.empty();
    writers_.push_back(std::move(writer));
  }

  const std::vector<Writer>& all() const { return writers_; }

 private:
  struct Dimension {
    bool told = true;  // all ranges are constant
    Coverage coverage;
  };

  // In some dimension, where nobody has written yet.
  bool IsDisjoint(const StoreBox& box) const {
    if (!all_told_ || box.size() != dimensions_.size()) return false;
    for (size_t d = 0; d < box.size(); ++d) {
      const auto least = box[d].least.AsConstant(), extent = box[d].extent.AsConstant();
      if (least && extent && dimensions_[d].told &&
          !dimensions_[d].coverage.Meets(*least, *least + *extent)) {
        return true;
      }
    }
    return false;
  }

  void Cover(const StoreBox& box) {
    if (writers_.empty() && dimensions_.empty()) dimensions_.resize(box.size());
    all_told_ &= box.size() == dimensions_.size();
    for (size_t d = 0; d < std::min(box.size(), dimensions_.size()); ++d) {
      const auto least = box[d].least.AsConstant(), extent = box[d].extent.AsConstant();
      if (least && extent) {
        dimensions_[d].coverage.Add(*least, *least + *extent);
      } else {
        dimensions_[d].told = false;
      }
    }
  }

  std::vector<Writer> writers_;
  std::vector<Dimension> dimensions_;
  bool all_told_ = true;  // each writer has boxes, of equal rank
};

}  // namespace

std::vector<OperationSet> Predecessors(const Program& program, const AccessIndex& accesses) {
  // Who has touched a buffer since an operation that all before it precede.
  struct Recent {
    Writers writers;
    std::vector<int> readers;         // behind all writers
    std::vector<int> readers_before;  // the last ones that the first writer waits for
  };
  const int count = static_cast<int>(program.operations.size());
  std::vector<OperationSet> predecessors(count);
  std::vector<Recent> recent(program.buffers.size());
  int last_ordered = -1;
  for (int j = 0; j < count; ++j) {
    const Accesses& of = accesses.Of(j);
    OperationSet& before = predecessors[j];
    const auto* call = std::get_if<ExternOp>(&program.operations[j]);
    if (call != nullptr && call->ordered) {
      if (last_ordered >= 0) before.insert(last_ordered);
      last_ordered = j;
    }
    for (BufferId id : of.reads) {
      for (const Writer& writer : recent[id].writers.all()) before.insert(writer.op);
      if (of.writes.count(id) == 0) recent[id].readers.push_back(j);
    }
    for (BufferId id : of.writes) {
      auto& [writers, readers, readers_before] = recent[id];
      const std::vector<int>& waits_for = readers.empty() ? readers_before : readers;
      before.insert(waits_for.begin(), waits_for.end());
      const bool reads = of.reads.count(id) != 0;
      // A reader waits for all writers, so who waits for a reader waits for all.
      const bool behind_reader = reads || !readers.empty();
      if (behind_reader) writers = Writers();
      const Writer writer = Writer::Of(program, j, id);
      writers.Add(writer, [&](int i) { before.insert(i); });
      if (behind_reader || writer.boxes.empty()) {
        // All that come later wait for this one, or for a reader behind it.
        writers = Writers();
        writers.Add(writer, [](int) {});
        readers_before = std::exchange(readers, {});
      }
      if (reads) readers = {j};
    }
  }
  return predecessors;
}

int64_t BufferBytes(const BufferInfo& buffer) {
  int64_t elements = 1;
  for (const Expr& size : buffer.sizes) elements *= sym::Hint(size);
  return elements * ItemSize(buffer.dtype);
}

}  // namespace tensord::compiler
