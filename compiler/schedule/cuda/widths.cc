// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/widths.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace tensord::compiler {
namespace {

// A vector of more than this many bytes of one operand brings nothing over two loads.
constexpr int kAccessBytes = 16;
constexpr int kMostVectorBytes = 16;  // of the widest operand: neighbouring threads stay neighbours
// Bodies of more instructions than this per element run with short vectors, for registers.
constexpr int kHeavyBody = 400;
constexpr int kHeavyWidth = 4;

// Calls visit(store) for each store to memory inside the vector loop.
template <class F>
void ForEachVectorStore(const Nest& nest, const F& visit) {
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Store& store : member.loops.stores) {
      if (nest.local.count(store.buffer) == 0) visit(store);
    }
  }
}

// Of the parts of complex numbers.
bool MayBeInPairs(const Program& program, const NestMember& member, BufferId buffer) {
  return program.buffers[buffer].is_complex || member.loops.stores.size() > 1;
}

// Calls visit(storage dtype, index, whether it is a guarded load, whether it may be one of a pair)
// for each access inside the vector loop.
template <class F>
void ForEachVectorAccess(const Program& program, const Nest& nest, const F& visit) {
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kLoad && nest.local.count(inst.buffer) == 0) {
        visit(inst.storage, inst.index, inst.guard >= 0,
              MayBeInPairs(program, member, inst.buffer));
      }
    }
  }
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Store& store : member.loops.stores) {
      if (nest.local.count(store.buffer) != 0) continue;
      visit(program.buffers[store.buffer].dtype, store.index, false,
            member.loops.stores.size() > 1);
    }
  }
}

// What lies along the last loop alone: the same for all rows, so it comes from the cache.
bool IsColumn(const Expr& index, int last) {
  bool others = false;
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    others |= atom.kind == sym::AtomKind::kIndirect ||
              (atom.kind == sym::AtomKind::kLoop && atom.id != last);
  });
  return !others;
}

// A loop that is one vector or two. What is padded there, as the channels of an image, has fewer
// elements: its loads are rarely aligned, and must not keep stores from being wide.
bool IsShort(const Expr& extent) {
  const auto constant = extent.AsConstant();
  return constant && *constant <= kWidestVector;
}

// By instruction: whether its value differs along a loop.
std::vector<bool> VaryAlong(const Block& block, sym::SymbolKey loop) {
  std::vector<bool> varies;
  std::set<int> symbols;  // that do
  for (const Inst& inst : block.insts) {
    bool differs = sym::Contains(inst.index, loop);
    sym::ForEachSymbol(inst.index, [&](const sym::Atom& atom) {
      differs |= atom.kind == sym::AtomKind::kIndirect && symbols.count(atom.id) > 0;
    });
    for (const int arg : inst.args) differs = differs || varies[arg];
    if (inst.guard >= 0) differs = differs || varies[inst.guard];
    if (differs && inst.kind == InstKind::kIndirect) symbols.insert(inst.symbol);
    varies.push_back(differs);
  }
  return varies;
}

// Values that are the same for all rows, of all members together: equal ones have one number.
class ColumnValues {
 public:
  explicit ColumnValues(int last) : last_(last) {}

  // Number of an instruction's value, given those of its arguments; -1: it differs between rows.
  int NumberOf(const Inst& inst, std::vector<int> args) {
    const bool differs = !IsColumn(inst.index, last_) || inst.kind == InstKind::kIndirect ||
                         std::count(args.begin(), args.end(), -1) > 0;
    if (differs) return -1;
    bool varies = sym::Contains(inst.index, {sym::AtomKind::kLoop, last_});
    for (const int arg : args) varies |= varies_[arg];
    const auto [it, is_new] =
        numbers_.try_emplace({inst.kind, inst.op, inst.dtype, inst.storage, inst.buffer, inst.index,
                              inst.number, inst.integer, std::move(args)},
                             static_cast<int>(varies_.size()));
    if (is_new) varies_.push_back(varies);
    return it->second;
  }
  // Not one number for all columns.
  bool IsVector(int number) const { return number >= 0 && varies_[number]; }

 private:
  using Key =
      std::tuple<InstKind, Op, DType, DType, BufferId, Expr, double, int64_t, std::vector<int>>;
  const int last_;
  std::map<Key, int> numbers_;
  std::vector<bool> varies_;  // by number: along the columns
};

// Vectors that a thread keeps for its columns, accumulators and what it computes rows with, and
// vectors that it loads for each row.
std::pair<int, int> CountVectors(const Nest& nest, int last) {
  ColumnValues columns(last);
  std::set<int> used;
  std::set<std::pair<BufferId, Expr>> rows;
  int accumulators = 0;
  for (const NestMember& member : nest.members) {
    std::vector<int> numbers;
    const auto use = [&](int value) {
      if (columns.IsVector(numbers[value])) used.insert(numbers[value]);
    };
    for (const Inst& inst : member.loops.block.insts) {
      std::vector<int> args;
      for (const int arg : inst.args) args.push_back(numbers[arg]);
      if (inst.guard >= 0) args.push_back(numbers[inst.guard]);
      const bool is_local = inst.kind == InstKind::kLoad && nest.local.count(inst.buffer) != 0;
      const int number = is_local ? -1 : columns.NumberOf(inst, std::move(args));
      if (number < 0) {
        std::for_each(inst.args.begin(), inst.args.end(), use);
        if (inst.kind == InstKind::kLoad && !is_local) rows.emplace(inst.buffer, inst.index);
      }
      numbers.push_back(number);
    }
    for (const Store& store : member.loops.stores) use(store.value);
    for (const Reduction& reduction : member.loops.reductions) {
      use(reduction.value);
      accumulators += reduction.kind == ReduceKind::kWelford ? 3 : 1;
    }
  }
  return {accumulators + static_cast<int>(used.size()), static_cast<int>(rows.size())};
}

int BodyCost(const Nest& nest) {
  int cost = 0;
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kCompute) cost += InfoOf(inst.op).cost;
    }
  }
  return cost;
}

// Stores are plain, and nothing is loaded or stored under a condition: what is keeps its alignment.
bool IsUnconditional(const Nest& nest) {
  bool plain = true;
  ForEachVectorStore(nest, [&](const Store& store) {
    plain = plain && store.mode == StoreMode::kAssign && store.guard < 0;
  });
  for (const NestMember& member : nest.members) {
    for (const Inst& inst : member.loops.block.insts) {
      plain = plain && (inst.kind != InstKind::kLoad || inst.guard < 0 || !member.has_inner);
    }
  }
  return plain;
}

}  // namespace

std::optional<Expr> StartOfStoredRow(const Nest& nest, int width) {
  // Its numbers are a member's own.
  constexpr sym::AtomKind kIndirect = sym::AtomKind::kIndirect;
  const sym::SymbolKey loop = VectorLoopOf(nest);
  std::optional<Expr> first;
  bool together = true;
  ForEachVectorStore(nest, [&](const Store& store) {
    const auto step = sym::LinearCoefficient(store.index, loop);
    const Expr start = sym::Substitute(store.index, {{loop, Expr(0)}});
    if (!first) first = start;
    together = together && step && step->Is(1) && !sym::ContainsKind(start, kIndirect) &&
               sym::ExactDiv(start - *first, Expr(width)).has_value();
  });
  return together ? first : std::nullopt;
}

bool HasColumnSums(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(),
                     [](const NestMember& m) { return m.reduces_outer; });
}

bool IsPureColumns(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return m.has_inner && m.has_outer && m.position == 1 && !m.reduces_inner;
  });
}

bool IsRare(const Nest& nest) {
  const sym::SymbolKey loop = VectorLoopOf(nest);
  return std::all_of(nest.members.begin(), nest.members.end(), [loop](const NestMember& member) {
    const std::vector<Store>& stores = member.loops.stores;
    const std::vector<bool> varies = VaryAlong(member.loops.block, loop);
    return !stores.empty() && std::all_of(stores.begin(), stores.end(), [&](const Store& store) {
      return store.guard >= 0 && !varies[store.guard];
    });
  });
}

bool IsHeavy(const Nest& nest) { return BodyCost(nest) > kHeavyBody; }

Widths ChooseWidths(const Program& program, const Nest& nest) {
  if (nest.inner.empty()) return {};
  const sym::SymbolKey loop = VectorLoopOf(nest);
  const int last = loop.second;
  int smallest = 8, largest = 1, largest_of_rows = 1;
  int64_t of_columns = 0, of_rows = 0;  // bytes of an element
  bool straight = true;
  std::vector<std::pair<int, int64_t>> alignments;
  const bool is_short = IsShort(nest.inner.back());
  ForEachVectorAccess(
      program, nest, [&](DType storage, const Expr& index, bool guarded, bool in_pairs) {
        const auto step = sym::LinearCoefficient(index, loop);
        if (step && step->Is(0)) return;  // one element for all lanes
        const int64_t of_pairs = in_pairs && !guarded ? PairAlignment(index, loop) : 0;
        const int size = static_cast<int>(ItemSize(storage)) * (of_pairs != 0 ? 2 : 1);
        const int64_t alignment = of_pairs != 0 ? of_pairs : VectorAlignment(index, loop);
        largest = std::max(largest, size);
        if (IsColumn(index, last)) {
          of_columns += size;
        } else {
          of_rows += size;
          largest_of_rows = std::max(largest_of_rows, size);
        }
        straight = straight && alignment != 0 && of_pairs == 0;
        if (alignment == 0) return;
        if (size > 1) smallest = std::min(smallest, size);
        if (guarded && is_short) return;  // lane by lane, where vectors are not aligned
        alignments.emplace_back(size, alignment);
      });
  if (alignments.empty()) return {};
  const bool keeps = straight && last > 0 && IsPureColumns(nest);
  const bool columns = keeps && of_columns > of_rows;
  // What a thread keeps for its columns is loaded once, in as many pieces as it takes.
  if (columns || (keeps && HasColumnSums(nest))) largest = largest_of_rows;
  int width = std::min({kWidestVector, kAccessBytes / smallest, kMostVectorBytes / largest});
  if (IsHeavy(nest)) width = std::min(width, kHeavyWidth);
  const auto is_aligned = [&](int w) {
    return std::all_of(alignments.begin(), alignments.end(),
                       [w](const auto& access) { return access.second % w == 0; });
  };
  Widths widths{
      .wished = width, .straight = straight, .narrowest = smallest, .prefers_columns = columns};
  std::tie(widths.column_vectors, widths.row_vectors) = CountVectors(nest, last);
  while (width > 1 && !is_aligned(width)) width /= 2;
  widths.partial = std::max(width, 1);
  while (width > 1 && !sym::ExactDiv(nest.inner.back(), Expr(width))) width /= 2;
  widths.aligned = std::max(width, 1);
  if (straight && IsUnconditional(nest)) {
    widths.unaligned_loads = true;
    ForEachVectorStore(nest, [&](const Store& store) {
      const int64_t alignment = VectorAlignment(store.index, loop);
      widths.unaligned_loads = widths.unaligned_loads && alignment % widths.wished == 0;
    });
    widths.peeled = StartOfStoredRow(nest, widths.wished).has_value();
  }
  return widths;
}

// Vectors start at multiples of their width, a power of two.
int64_t VectorAlignment(const Expr& index, sym::SymbolKey loop) {
  const auto step = sym::LinearCoefficient(index, loop);
  if (!step || !step->Is(1)) return 0;
  int64_t alignment = int64_t{1} << 20;
  for (const sym::Term& term : index.terms()) {
    const bool is_loop = term.coefficient == 1 && term.atoms.size() == 1 &&
                         term.atoms[0]->kind == loop.first && term.atoms[0]->id == loop.second;
    if (is_loop) continue;
    alignment = std::min(alignment, term.coefficient & -term.coefficient);
  }
  return alignment;
}

int64_t PairAlignment(const Expr& index, sym::SymbolKey loop) {
  const auto step = sym::LinearCoefficient(index, loop);
  if (!step || !step->Is(2)) return 0;
  for (const Expr& first : {index, index - 1}) {
    if (const auto pairs = sym::ExactDiv(first, Expr(2))) return VectorAlignment(*pairs, loop);
  }
  return 0;
}

bool NeedsWideIndex(const Expr& elements) {
  constexpr int64_t kMostIndex = (int64_t{1} << 31) - 1;
  const auto value = elements.AsConstant();
  return !value || *value > kMostIndex;
}

bool NeedsWideIndex(const BufferInfo& buffer) {
  return NeedsWideIndex(StorageElements(buffer.sizes, buffer.strides));
}

}  // namespace tensord::compiler
