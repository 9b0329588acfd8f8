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

AccessBox AccessBoxOf(const BufferInfo& buffer, const Expr& index) {
  if (sym::ContainsKind(index, sym::AtomKind::kIndirect)) return {};
  std::vector<int> order(buffer.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return sym::Hint(buffer.strides[a]) > sym::Hint(buffer.strides[b]);
  });
  AccessBox box;
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

bool AreDisjoint(const AccessBox& a, const AccessBox& b) {
  if (a.empty() || a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (IsBehind(a[d], b[d]) || IsBehind(b[d], a[d])) return true;
  }
  return false;
}

namespace {

// What an operation loads from one buffer, or stores into it.
struct Access {
  int op;
  std::vector<AccessBox> boxes;  // of all of that; empty when some elements cannot be told

  static Access Stores(const Program& program, int op, BufferId buffer) {
    Access access{.op = op};
    const auto* loop = std::get_if<LoopOp>(&program.operations[op]);
    if (loop == nullptr) return access;
    for (const Store& store : loop->stores) {
      if (store.buffer == buffer && !access.Add(program.buffers[buffer], store.index)) break;
    }
    return access;
  }

  static Access Loads(const Program& program, int op, BufferId buffer) {
    Access access{.op = op};
    const auto* loop = std::get_if<LoopOp>(&program.operations[op]);
    if (loop == nullptr) return access;
    for (const Store& store : loop->stores) {  // those that add to what is there
      if (store.buffer == buffer && store.mode != StoreMode::kAssign) return access;
    }
    for (const Inst& inst : loop->block.insts) {
      if (inst.kind != InstKind::kLoad || inst.buffer != buffer) continue;
      if (!access.Add(program.buffers[buffer], inst.index)) break;
    }
    return access;
  }

  bool Conflicts(const Access& other) const {
    if (boxes.empty() || other.boxes.empty()) return true;
    for (const AccessBox& a : boxes) {
      for (const AccessBox& b : other.boxes) {
        if (!AreDisjoint(a, b)) return true;
      }
    }
    return false;
  }

 private:
  // False where the elements cannot be told.
  bool Add(const BufferInfo& buffer, const Expr& index) {
    boxes.push_back(AccessBoxOf(buffer, index));
    if (!boxes.back().empty()) return true;
    boxes.clear();
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
  void Add(Access writer, const Visit& visit) {
    const bool apart = !writers_.empty() && !writer.boxes.empty() &&
                       std::all_of(writer.boxes.begin(), writer.boxes.end(),
                                   [this](const AccessBox& box) { return IsDisjoint(box); });
    if (!apart) {
      for (const Access& other : writers_) {
        if (other.Conflicts(writer)) visit(other.op);
      }
    }
    for (const AccessBox& box : writer.boxes) Cover(box);
    all_told_ &= !writer.boxes.empty();
    writers_.push_back(std::move(writer));
  }

  const std::vector<Access>& all() const { return writers_; }

 private:
  struct Dimension {
    bool told = true;  // all ranges are constant
    Coverage coverage;
  };

  // In some dimension, where nobody has written yet.
  bool IsDisjoint(const AccessBox& box) const {
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

  void Cover(const AccessBox& box) {
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

  std::vector<Access> writers_;
  std::vector<Dimension> dimensions_;
  bool all_told_ = true;  // each writer has boxes, of equal rank
};

// Who has touched a buffer since an operation that all before it precede.
class Recent {
 public:
  // Calls visit(op) for each operation that this one must wait for, unless it waits for another
  // that does. Who reads and writes does so in this order.
  template <typename Visit>
  void Read(const Program& program, int op, BufferId buffer, const Visit& visit) {
    const std::vector<Access>& writers = writers_.all();
    size_t waits_for = writers.size();
    if (writers.size() < 2) {
      for (const Access& writer : writers) visit(writer.op);
    } else {
      const Access loads = Access::Loads(program, op, buffer);
      for (const Access& writer : writers) {
        if (writer.Conflicts(loads)) {
          visit(writer.op);
        } else {
          --waits_for;
        }
      }
    }
    behind_all_ |= waits_for == writers.size();
    readers_.push_back(op);
  }

  template <typename Visit>
  void Write(const Program& program, int op, BufferId buffer, const Visit& visit) {
    const bool reads = !readers_.empty() && readers_.back() == op;
    if (reads) readers_.pop_back();
    // Who waits for a reader that waits for all writers waits for all.
    const bool behind_reader = (reads || !readers_.empty()) && behind_all_;
    for (const int reader : readers_) visit(reader);
    if (readers_.empty() || !behind_reader) {
      for (const int reader : readers_before_) visit(reader);
    }
    if (behind_reader) writers_ = Writers();
    const Access stores = Access::Stores(program, op, buffer);
    writers_.Add(stores, visit);
    const bool ahead_of_all = behind_reader || stores.boxes.empty();
    if (ahead_of_all) {
      // All that come later wait for this one, or for a reader behind it.
      writers_ = Writers();
      writers_.Add(stores, [](int) {});
      readers_before_ = std::exchange(readers_, {});
    }
    if (reads) readers_.push_back(op);
    behind_all_ = reads && ahead_of_all;
  }

 private:
  Writers writers_;
  std::vector<int> readers_;         // behind some of them
  std::vector<int> readers_before_;  // the last ones that the first writer waits for
  bool behind_all_ = false;          // one of the readers waits for all of the writers
};

}  // namespace

bool MayMeet(const Program& program, int loads, int stores, BufferId buffer) {
  return Access::Stores(program, stores, buffer).Conflicts(Access::Loads(program, loads, buffer));
}

std::vector<OperationSet> Predecessors(const Program& program, const AccessIndex& accesses) {
  const int count = static_cast<int>(program.operations.size());
  std::vector<OperationSet> predecessors(count);
  std::vector<Recent> recent(program.buffers.size());
  int last_ordered = -1;
  for (int j = 0; j < count; ++j) {
    const Accesses& of = accesses.Of(j);
    const auto wait = [&before = predecessors[j]](int i) { before.insert(i); };
    const auto* call = std::get_if<ExternOp>(&program.operations[j]);
    if (call != nullptr && call->ordered) {
      if (last_ordered >= 0) wait(last_ordered);
      last_ordered = j;
    }
    for (BufferId id : of.reads) recent[id].Read(program, j, id, wait);
    for (BufferId id : of.writes) recent[id].Write(program, j, id, wait);
  }
  return predecessors;
}

int64_t BufferBytes(const BufferInfo& buffer) {
  int64_t elements = 1;
  for (const Expr& size : buffer.sizes) elements *= sym::Hint(size);
  return elements * ItemSize(buffer.dtype);
}

}  // namespace tensord::compiler
