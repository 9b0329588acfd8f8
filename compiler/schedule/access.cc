// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/access.h"

#include <algorithm>
#include <iterator>
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

AccessedParts AccessedParts::Stores(const Program& program, int op, BufferId buffer) {
  AccessedParts parts;
  const auto* loop = std::get_if<LoopOp>(&program.operations[op]);
  if (loop == nullptr) return parts;
  for (const Store& store : loop->stores) {
    if (store.buffer == buffer && !parts.Add(program.buffers[buffer], store.index)) break;
  }
  return parts;
}

AccessedParts AccessedParts::Loads(const Program& program, int op, BufferId buffer) {
  AccessedParts parts;
  const auto* loop = std::get_if<LoopOp>(&program.operations[op]);
  if (loop == nullptr) return parts;
  for (const Store& store : loop->stores) {  // those that add to what is there
    if (store.buffer == buffer && store.mode != StoreMode::kAssign) return parts;
  }
  for (const Inst& inst : loop->block.insts) {
    if (inst.kind != InstKind::kLoad || inst.buffer != buffer) continue;
    if (!parts.Add(program.buffers[buffer], inst.index)) break;
  }
  return parts;
}

bool AccessedParts::MayMeet(const AccessedParts& other) const {
  if (boxes.empty() || other.boxes.empty()) return true;
  for (const AccessBox& a : boxes) {
    for (const AccessBox& b : other.boxes) {
      if (!AreDisjoint(a, b)) return true;
    }
  }
  return false;
}

bool AccessedParts::Add(const BufferInfo& buffer, const Expr& index) {
  boxes.push_back(AccessBoxOf(buffer, index));
  if (!boxes.back().empty()) return true;
  boxes.clear();
  return false;
}

void WriterIndex::Add(int op, AccessedParts parts) {
  if (writers_.empty() && !parts.boxes.empty()) dimensions_.resize(parts.boxes[0].size());
  if (parts.boxes.empty()) dimensions_.clear();
  for (const AccessBox& box : parts.boxes) {
    if (box.size() != dimensions_.size()) dimensions_.clear();
    for (size_t d = 0; d < dimensions_.size(); ++d) dimensions_[d].Add(box[d], writers_.size());
  }
  writers_.push_back({op, std::move(parts)});
}

std::vector<int> WriterIndex::Meeting(const AccessedParts& parts) const {
  std::vector<int> found;
  const auto look = [&](size_t i) {
    if (writers_[i].parts.MayMeet(parts)) found.push_back(writers_[i].op);
  };
  for (size_t d = 0; d < dimensions_.size() && !parts.boxes.empty(); ++d) {
    std::set<size_t> candidates;
    const bool told = std::ranges::all_of(parts.boxes, [&](const AccessBox& box) {
      return box.size() == dimensions_.size() && dimensions_[d].Collect(box[d], &candidates);
    });
    if (!told) continue;
    std::ranges::for_each(candidates, look);
    return found;
  }
  for (size_t i = 0; i < writers_.size(); ++i) look(i);
  return found;
}

void WriterIndex::Dimension::Add(const CoordinateRange& range, size_t writer) {
  if (!apart) return;
  const auto begin = range.least.AsConstant(), extent = range.extent.AsConstant();
  apart = begin && extent && *extent > 0;
  if (!apart) return;
  const int64_t end = *begin + *extent;
  const auto next = ranges.lower_bound(*begin);
  apart = (next == ranges.end() || next->first >= end) &&
          (next == ranges.begin() || std::prev(next)->second.first <= *begin);
  if (apart) ranges.emplace_hint(next, *begin, std::pair(end, writer));
}

bool WriterIndex::Dimension::Collect(const CoordinateRange& range,
                                     std::set<size_t>* writers) const {
  const auto begin = range.least.AsConstant(), extent = range.extent.AsConstant();
  if (!apart || !begin || !extent) return false;
  auto it = ranges.upper_bound(*begin);
  if (it != ranges.begin() && std::prev(it)->second.first > *begin) --it;
  for (; it != ranges.end() && it->first < *begin + *extent; ++it)
    writers->insert(it->second.second);
  return true;
}

namespace {

// Who has touched a buffer, as far as later operations must know. Whoever did before those that are
// listed here precedes the first writer, and the last of `readers_before_`: a reader that meets
// none of the writers waits for these.
class Recent {
 public:
  // Calls visit(op) for each operation that this one must wait for, unless it waits for another
  // that does. Who reads and writes does so in this order.
  template <typename Visit>
  void Read(const Program& program, int op, BufferId buffer, const Visit& visit) {
    // One alone has mostly written all of it.
    const AccessedParts loads =
        writers_.size() < 2 ? AccessedParts() : AccessedParts::Loads(program, op, buffer);
    const std::vector<int> waits_for = writers_.Meeting(loads);
    std::ranges::for_each(waits_for, visit);
    if (waits_for.size() < writers_.size()) std::ranges::for_each(readers_before_, visit);
    behind_all_ |= waits_for.size() == writers_.size();
    readers_.push_back(op);
  }

  template <typename Visit>
  void Write(const Program& program, int op, BufferId buffer, const Visit& visit) {
    const bool reads = !readers_.empty() && readers_.back() == op;
    if (reads) readers_.pop_back();
    // Who waits for a reader that waits for all writers waits for all.
    const bool behind_reader = (reads || !readers_.empty()) && behind_all_;
    std::ranges::for_each(readers_, visit);
    if (readers_.empty() || !behind_reader) std::ranges::for_each(readers_before_, visit);
    AccessedParts stores = AccessedParts::Stores(program, op, buffer);
    if (!behind_reader) std::ranges::for_each(writers_.Meeting(stores), visit);
    const bool ahead_of_all = behind_reader || stores.boxes.empty();
    if (ahead_of_all) {
      // All that come later wait for this one, or for a reader behind it.
      writers_ = WriterIndex();
      readers_before_ = std::exchange(readers_, {});
    }
    writers_.Add(op, std::move(stores));
    if (reads) readers_.push_back(op);
    behind_all_ = reads && ahead_of_all;
  }

 private:
  WriterIndex writers_;
  std::vector<int> readers_;         // behind some of them
  std::vector<int> readers_before_;  // the last ones that the first writer waits for
  bool behind_all_ = false;          // one of the readers waits for all of the writers
};

}  // namespace

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

}  // namespace tensord::compiler
