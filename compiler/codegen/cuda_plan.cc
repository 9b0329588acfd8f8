#include "compiler/codegen/cuda_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"

namespace tensord::compiler {
namespace {

constexpr int kWarp = 32;
constexpr int kUsualThreads = 256;
constexpr int kMostThreads = 1024;
// A vector of more than this many bytes of one operand brings nothing over two loads.
constexpr int kAccessBytes = 16;
constexpr int kMostVectorBytes = 16;  // of the widest operand: neighbouring threads stay neighbours
constexpr int kMostWidth = 8;
// Bodies of more instructions than this per element run with short vectors, for registers.
constexpr int kHeavyBody = 400;
constexpr int kHeavyWidth = 4;
// Scalars that every thread may compute for one vector, and the vectors for which it computes
// others.
constexpr int kCheapScalars = 30;
constexpr int kTurns = 4;
// Elements of a row that a thread may hold, of all arrays together; in blocks of more than 512
// threads, which have 64 registers for each.
constexpr int kMostHeld = 150;
constexpr int kMostHeldOfLarge = 24;
// Vectors that a thread of a block should have under way for its row.
constexpr int kUsualChunks = 4;
// Rows of this many elements are read by interleaved lanes where aligned vectors would be so many
// times narrower than wished.
constexpr int64_t kLeastInterleaved = 1024;
constexpr int kMostWaste = 4;
// What a value for a later pass may cost to be computed again, in instructions and in loads that
// the caches serve: where it would be held in registers, and where it would lie in memory.
constexpr int kCheapAgain = 12;
constexpr int kMostCostAgain = 40;
constexpr int kMostVectorsAgain = 2;
// Rows of fewer vectors belong to a warp or a part of one.
constexpr int kMostVectorsOfWarp = 128;
// Shared memory that every device has without asking for more.
constexpr int64_t kPlainShared = 48 << 10;
// Left to the kernel's own static arrays.
constexpr int64_t kStaticShared = 4 << 10;
// Threads of a multiprocessor that sweep: more hide latency better, fewer leave less to combine.
constexpr int kSweepThreads = 1024;
// The same where each thread has several vectors under way, and where it holds accumulators for a
// row beside the row.
constexpr int kTileThreads = 768;
constexpr int kRowSweepThreads = 384;
// The same where only totals outlive a row.
constexpr int kTotalsThreads = 2048;
// Elements of a row that a thread of a sweep may hold, of all arrays together: alone in its warp,
// and in a block that shares the row.
constexpr int kMostHeldOfWarp = 150;
constexpr int kUsuallyHeldOfBlock = 64;
// A part of a split row has at least this many vectors for each thread.
constexpr int kLeastVectorsOfPart = 4;

bool HasColumnSums(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(),
                     [](const NestMember& m) { return m.reduces_outer; });
}

// Sums over rows, one for each column.
bool IsColumnSum(const NestMember& m) { return m.has_inner && m.reduces_outer && !m.reduces_inner; }

bool IsPointwise(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return m.has_inner && m.position <= 1 && m.loops.reductions.empty();
  });
}

// Calls visit(storage dtype, index) for each access inside the vector loop.
template <class F>
void ForEachVectorAccess(const Program& program, const Nest& nest, const F& visit) {
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kLoad && nest.local.count(inst.buffer) == 0) {
        visit(inst.storage, inst.index);
      }
    }
    for (const Store& store : member.loops.stores) {
      if (nest.local.count(store.buffer) == 0) {
        visit(program.buffers[store.buffer].dtype, store.index);
      }
    }
  }
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

// What is computed from scalars alone: the same in every thread.
int ScalarCost(const Nest& nest) {
  int cost = 0;
  for (const NestMember& member : nest.members) {
    std::vector<bool> varies;
    for (const Inst& inst : member.loops.block.insts) {
      bool differs = (inst.kind == InstKind::kLoad || inst.kind == InstKind::kIndex) &&
                     (sym::ContainsKind(inst.index, sym::AtomKind::kLoop) ||
                      sym::ContainsKind(inst.index, sym::AtomKind::kIndirect));
      for (int arg : inst.args) differs = differs || varies[arg];
      if (inst.kind == InstKind::kCompute && !differs) cost += InfoOf(inst.op).cost;
      varies.push_back(differs);
    }
  }
  return cost;
}

struct Widths {
  int wished = 1;   // by the sizes of elements and the body
  int partial = 1;  // keeps every access aligned
  int aligned = 1;  // and divides the innermost loop
};

Widths ChooseWidth(const Program& program, const Nest& nest) {
  if (nest.inner.empty()) return {};
  const int last = static_cast<int>(nest.outer.size() + nest.inner.size()) - 1;
  int smallest = 8, largest = 1;
  std::vector<std::pair<int, int64_t>> alignments;
  ForEachVectorAccess(program, nest, [&](DType storage, const Expr& index) {
    const auto step = sym::LinearCoefficient(index, {sym::AtomKind::kLoop, last});
    if (step && step->Is(0)) return;  // one element for all lanes
    const int size = static_cast<int>(ItemSize(storage));
    const int64_t alignment = VectorAlignment(index, {sym::AtomKind::kLoop, last});
    largest = std::max(largest, size);
    if (alignment == 0) return;
    if (size > 1) smallest = std::min(smallest, size);
    alignments.emplace_back(size, alignment);
  });
  if (alignments.empty()) return {};
  int width = std::min({kMostWidth, kAccessBytes / smallest, kMostVectorBytes / largest});
  if (BodyCost(nest) > kHeavyBody) width = std::min(width, kHeavyWidth);
  const auto is_aligned = [&](int w) {
    return std::all_of(alignments.begin(), alignments.end(),
                       [w](const auto& access) { return access.second % w == 0; });
  };
  Widths widths{.wished = width};
  while (width > 1 && !is_aligned(width)) width /= 2;
  widths.partial = std::max(width, 1);
  while (width > 1 && !sym::ExactDiv(nest.inner.back(), Expr(width))) width /= 2;
  widths.aligned = std::max(width, 1);
  return widths;
}

bool FindsPlaces(const Nest& nest) {
  for (const NestMember& member : nest.members) {
    for (const Reduction& reduction : member.loops.reductions) {
      if (IsArg(reduction.kind)) return true;
    }
  }
  return false;
}

int RoundUpToWarp(int64_t threads) {
  return static_cast<int>((threads + kWarp - 1) / kWarp) * kWarp;
}

// Arrays of a row that a thread holds in registers: kept loads, values for later passes and sums of
// columns.
int HeldArrays(const Nest& nest) {
  const std::set<BufferId> again = LocalsComputedAgain(nest, /*held=*/true);
  int arrays = static_cast<int>(RepeatedLoads(nest).size());
  for (BufferId id : LocalsOfRows(nest)) arrays += again.count(id) == 0 ? 1 : 0;
  for (const NestMember& member : nest.members) {
    if (IsColumnSum(member)) arrays += static_cast<int>(member.loops.reductions.size());
  }
  return arrays;
}

int64_t HeldBytes(const Program& program, const Nest& nest) {
  int64_t bytes = 0;
  const std::set<BufferId> again = LocalsComputedAgain(nest, /*held=*/false);
  for (BufferId id : LocalsOfRows(nest)) {
    if (again.count(id) != 0) continue;
    bytes += ItemSize(ComputeType(program.buffers[id].dtype));
  }
  return bytes * sym::Hint(sym::Product(nest.inner));
}

class Planner {
 public:
  Planner(const Program& program, const Nest& nest, const v1::CudaTarget& target, int fixed_threads)
      : program_(program), nest_(nest), target_(target), fixed_(fixed_threads) {
    widths_ = ChooseWidth(program, nest);
    plan_.width = widths_.aligned;
    rows_ = sym::Product(nest.outer);
    vectors_ =
        nest.inner.empty() ? Expr(1) : sym::FloorDiv(sym::Product(nest.inner), Expr(plan_.width));
  }

  CudaPlan Plan() {
    if (nest_.shape == NestShape::kBlocked && !nest_.members[0].loops.reductions.empty()) {
      Columns();
    } else if (nest_.shape == NestShape::kFlat && HasColumnSums(nest_)) {
      plan_.kind = CudaPlan::kSweep;
      Threads(kUsualThreads);
      Bound(sym::CeilDiv(rows_ * vectors_, Expr(plan_.threads)), SweepBlocks());
    } else if (IsPointwise(nest_)) {
      Elements();
    } else {
      Rows();
    }
    return plan_;
  }

 private:
  int Multiprocessors() const { return std::max<int>(1, target_.multiprocessors()); }
  int SweepBlocks() const { return Multiprocessors() * std::max(1, kSweepThreads / plan_.threads); }
  void Threads(int wanted) { plan_.threads = fixed_ > 0 ? fixed_ : wanted; }
  // As many blocks as there is work for, but no more than `most`.
  void Bound(const Expr& wanted, int most) {
    plan_.loops_rows = true;
    plan_.blocks = sym::Min(wanted, Expr(std::max(most, 1)));
    plan_.copies = plan_.blocks;
  }

  void Elements() {
    Threads(kUsualThreads);
    plan_.tiles = PlanTiles(program_, nest_, target_, plan_.width, plan_.threads);
    if (plan_.tiles) {
      plan_.kind = CudaPlan::kTiles;
      plan_.blocks = plan_.tiles->blocks;
      if (BodyCost(nest_) > kHeavyBody) plan_.tiles->unroll = 1;
      return;
    }
    plan_.kind = CudaPlan::kElements;
    // An optimizer's powers of its step, say, are worth several vectors.
    if (nest_.outer.empty() && ScalarCost(nest_) > kCheapScalars) plan_.turns = kTurns;
    plan_.blocks = sym::CeilDiv(rows_ * vectors_, Expr(plan_.threads * plan_.turns));
  }

  void Columns() {
    plan_.kind = CudaPlan::kColumns;
    Threads(128);
    // The vector loop is the last inner one; the others run inside of a thread.
    const Expr vectors =
        nest_.inner.empty() ? Expr(1) : sym::FloorDiv(nest_.inner.back(), Expr(plan_.width));
    plan_.blocks = sym::CeilDiv(rows_ * vectors, Expr(plan_.threads));
  }

  void Rows() {
    const int64_t vectors = std::max<int64_t>(1, sym::Hint(vectors_));
    const int64_t rows = std::max<int64_t>(1, sym::Hint(rows_));
    const bool sums = HasColumnSums(nest_);
    plan_.kind = sums ? CudaPlan::kSweep : CudaPlan::kRows;
    if (sums && PureColumns()) return Tile();
    if (!sums && MaySplit() && rows < Multiprocessors() &&
        vectors >= int64_t{kLeastVectorsOfPart} * 2 * kUsualThreads) {
      return Split(rows, vectors);
    }
    if (HasPartialVector()) {
      plan_.partial = true;
      SetWidth(widths_.partial);
    } else if (Interleaves()) {
      plan_.interleaved = true;
      SetWidth(widths_.wished);
    }
    if (!HoldRow(sums) && sums) {  // columns in memory are in whole vectors
      plan_.interleaved = plan_.partial = false;
      SetWidth(widths_.aligned);
      HoldRow(sums);
    }
    if (plan_.chunks == 0) Loop(sums);
    if (sums) {
      const bool columns = std::any_of(nest_.members.begin(), nest_.members.end(), IsColumnSum);
      const int threads = columns ? kRowSweepThreads : kTotalsThreads;
      if (columns) plan_.resident = std::max(1, threads / plan_.threads);
      Bound(sym::CeilDiv(rows_, Expr(plan_.groups())),
            Multiprocessors() * std::max(1, threads / plan_.threads));
    } else if (!plan_.loops_rows) {
      plan_.blocks = sym::CeilDiv(rows_, Expr(plan_.groups()));
    }
  }

  void ChooseGroup(int64_t vectors, int64_t rows) {
    if (vectors <= kMostVectorsOfWarp &&
        (fixed_ > 0 || rows >= 4 * Multiprocessors() || vectors <= kWarp)) {
      plan_.group =
          static_cast<int>(std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
      Threads(128);
      // Few rows: small blocks, so that every multiprocessor has one.
      while (fixed_ == 0 && plan_.threads > kWarp &&
             rows < int64_t{Multiprocessors()} * plan_.groups() * 2) {
        plan_.threads /= 2;
      }
      return;
    }
    const int64_t wanted = RoundUpToWarp((vectors + kUsualChunks - 1) / kUsualChunks);
    Threads(static_cast<int>(std::clamp<int64_t>(wanted, 64, kMostThreads)));
    plan_.group = plan_.threads;
  }

  void SetWidth(int width) {
    plan_.width = width;
    vectors_ = sym::CeilDiv(sym::Product(nest_.inner), Expr(width));
  }

  // Rows in wide memory, like a product's padded result.
  bool HasPartialVector() const {
    return nest_.inner.size() == 1 && widths_.partial > widths_.aligned &&
           2 * widths_.partial >= widths_.wished &&
           sym::Hint(nest_.inner[0]) >= kLeastInterleaved && !FindsPlaces(nest_);
  }

  // Rows whose length or alignment forbids vectors of neighbours.
  bool Interleaves() const {
    return nest_.inner.size() == 1 && widths_.aligned * kMostWaste <= widths_.wished &&
           sym::Hint(nest_.inner[0]) >= kLeastInterleaved && !FindsPlaces(nest_);
  }

  // Chooses the group; true when its threads hold the whole row.
  bool HoldRow(bool sums) {
    const int64_t vectors = std::max<int64_t>(1, sym::Hint(vectors_));
    if (sums) {
      ChooseSweepGroup(vectors);
    } else {
      ChooseGroup(vectors, std::max<int64_t>(1, sym::Hint(rows_)));
    }
    const int64_t chunks = (vectors + plan_.group - 1) / plan_.group;
    const int64_t held = chunks * plan_.width * std::max(1, HeldArrays(nest_));
    const bool holds = vectors_.AsConstant().has_value() &&
                       held <= (plan_.threads > 512 ? kMostHeldOfLarge : kMostHeld);
    plan_.chunks = holds ? static_cast<int>(chunks) : 0;
    return holds;
  }

  // A warp needs no barrier to reduce a row; what it cannot hold is a block's.
  void ChooseSweepGroup(int64_t vectors) {
    const int64_t of_vector = int64_t{plan_.width} * std::max(1, HeldArrays(nest_));
    if ((vectors + kWarp - 1) / kWarp * of_vector <= kMostHeldOfWarp) {
      plan_.group =
          static_cast<int>(std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
      return Threads(kRowSweepThreads / 3);
    }
    const int64_t chunks = std::max<int64_t>(1, kUsuallyHeldOfBlock / of_vector);
    Threads(static_cast<int>(std::clamp<int64_t>(RoundUpToWarp((vectors + chunks - 1) / chunks),
                                                 kRowSweepThreads / 3, kMostThreads)));
    plan_.group = plan_.threads;
  }

  // The row is too long for registers.
  void Loop(bool sums) {
    plan_.chunks = 0;
    Threads(kMostThreads);
    plan_.group = plan_.threads;
    const int64_t bytes = HeldBytes(program_, nest_);
    const int64_t room =
        std::max<int64_t>(kPlainShared, target_.shared_bytes_per_block()) - kStaticShared;
    plan_.rows_in_shared =
        bytes <= room && sym::Product(nest_.inner).AsConstant().has_value() && !sums;
    if (!plan_.rows_in_shared && (bytes > 0 || sums)) Bound(rows_, 2 * Multiprocessors());
  }

  // Nothing but sums over rows: columns are independent of each other.
  bool PureColumns() const {
    return std::all_of(nest_.members.begin(), nest_.members.end(), [](const NestMember& m) {
      return m.has_inner && m.position == 1 && !m.reduces_inner;
    });
  }

  void Tile() {
    Threads(kUsualThreads);
    plan_.group = kWarp;
    plan_.chunks = 1;
    plan_.tiled = true;
    if (HasPartialVector()) {
      plan_.partial = true;
      SetWidth(widths_.partial);
    }
    const Expr tiles = sym::CeilDiv(vectors_, Expr(plan_.group));
    const int64_t hint = std::max<int64_t>(1, sym::Hint(tiles));
    const int64_t sweeps =
        std::max<int64_t>(1, Multiprocessors() * kTileThreads / plan_.threads / hint);
    plan_.loops_rows = true;
    plan_.copies = sym::Min(sym::CeilDiv(rows_, Expr(plan_.groups())), Expr(sweeps));
    plan_.blocks = tiles * plan_.copies;
  }

  // One pass of reductions, then at most statements about the row.
  bool MaySplit() const {
    return std::all_of(nest_.members.begin(), nest_.members.end(), [](const NestMember& m) {
      return m.has_inner ? m.position == 1 : m.position > 1;
    });
  }

  void Split(int64_t rows, int64_t vectors) {
    plan_.kind = CudaPlan::kSplit;
    Threads(kUsualThreads);
    plan_.group = plan_.threads;
    const int64_t useful = vectors / (int64_t{kLeastVectorsOfPart} * plan_.threads);
    const int64_t wanted = (SweepBlocks() + rows - 1) / rows;
    plan_.parts = static_cast<int>(std::clamp<int64_t>(std::min(useful, wanted), 1, 1024));
    plan_.blocks = rows_ * plan_.parts;
  }

  const Program& program_;
  const Nest& nest_;
  const v1::CudaTarget& target_;
  const int fixed_;
  Widths widths_;
  Expr rows_, vectors_;
  CudaPlan plan_;
};

}  // namespace

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

Nest PrepareForCuda(Nest nest) {
  if (nest.shape == NestShape::kFlat) {
    for (NestMember& member : nest.members) member.reduces_outer = member.reduces_inner;
  }
  return nest;
}

std::set<BufferId> LocalsOfRows(const Nest& nest) {
  std::set<BufferId> locals;
  for (const NestMember& writer : nest.members) {
    if (!writer.has_inner) continue;
    for (const Store& store : writer.loops.stores) {
      if (nest.local.count(store.buffer) == 0) continue;
      for (const NestMember& reader : nest.members) {
        if (reader.position <= writer.position) continue;
        for (const Inst& inst : reader.loops.block.insts) {
          if (inst.kind == InstKind::kLoad && inst.buffer == store.buffer) {
            locals.insert(store.buffer);
          }
        }
      }
    }
  }
  return locals;
}

// What is the same for all rows, like a norm's weight, comes from the cache the second time: in
// registers it would cost as much as the row itself.
std::set<std::pair<BufferId, Expr>> RepeatedLoads(const Nest& nest) {
  std::set<std::pair<BufferId, Expr>> repeated;
  const auto depends_on_row = [&](const Expr& index) {
    for (size_t d = 0; d < nest.outer.size(); ++d) {
      const auto step = sym::LinearCoefficient(index, {sym::AtomKind::kLoop, static_cast<int>(d)});
      if (!step || !step->Is(0)) return true;
    }
    return false;
  };
  std::map<std::pair<BufferId, Expr>, int> first;
  std::set<BufferId> written;
  for (const NestMember& member : nest.members) {
    for (const Store& store : member.loops.stores) written.insert(store.buffer);
  }
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind != InstKind::kLoad || inst.guard >= 0 || written.count(inst.buffer) != 0 ||
          sym::ContainsKind(inst.index, sym::AtomKind::kIndirect) || !depends_on_row(inst.index)) {
        continue;
      }
      const auto key = std::make_pair(inst.buffer, inst.index);
      auto [it, is_new] = first.emplace(key, member.position);
      if (!is_new && it->second != member.position) repeated.insert(key);
    }
  }
  return repeated;
}

static bool VariesInRow(const Nest& nest, const Expr& index) {
  bool varies = false;
  sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
    varies |= atom.kind == sym::AtomKind::kIndirect ||
              (atom.kind == sym::AtomKind::kLoop && atom.id >= static_cast<int>(nest.outer.size()));
  });
  return varies;
}

std::set<BufferId> LocalsComputedAgain(const Nest& nest, bool held) {
  std::set<BufferId> again;
  const std::set<BufferId> locals = LocalsOfRows(nest);
  for (const NestMember& writer : nest.members) {
    const std::vector<Inst>& insts = writer.loops.block.insts;
    for (const Store& store : writer.loops.stores) {
      if (locals.count(store.buffer) == 0 || store.mode != StoreMode::kAssign) continue;
      int cost = 0, vectors = 0;
      std::set<int> seen;
      std::vector<int> stack{store.value};
      bool possible = store.guard < 0;
      while (!stack.empty()) {
        const int id = stack.back();
        stack.pop_back();
        if (!seen.insert(id).second) continue;
        const Inst& inst = insts[id];
        if (inst.kind == InstKind::kCompute) cost += InfoOf(inst.op).cost;
        if (inst.kind == InstKind::kLoad) {
          possible = possible && inst.guard < 0 && locals.count(inst.buffer) == 0;
          vectors += VariesInRow(nest, inst.index) ? 1 : 0;
        }
        for (int arg : inst.args) stack.push_back(arg);
      }
      // A value in registers is dearer than a few instructions, but what is loaded for it would be
      // held in its stead.
      const bool pays = held ? vectors == 0 && cost <= kCheapAgain
                             : vectors <= kMostVectorsAgain && cost <= kMostCostAgain;
      if (possible && pays) again.insert(store.buffer);
    }
  }
  return again;
}

CudaPlan PlanCudaNest(const Program& program, const Nest& nest, const v1::CudaTarget& target,
                      int fixed_threads) {
  CudaPlan plan = Planner(program, nest, target, fixed_threads).Plan();
  TENSORD_CHECK(plan.threads % plan.group == 0, "groups do not fill the block");
  return plan;
}

std::string ToString(const CudaPlan& plan) {
  static constexpr const char* kNames[] = {"elements", "tiles", "rows",
                                           "sweep",    "split", "columns"};
  std::string text = absl::StrCat(kNames[plan.kind], " w", plan.width, " t", plan.threads, " g",
                                  plan.group, " c", plan.chunks);
  if (plan.tiles) {
    absl::StrAppend(&text, " ", plan.tiles->along, "x", plan.tiles->across);
    for (const TileOperand& operand : plan.tiles->operands)
      absl::StrAppend(&text, " r", operand.run);
  }
  return text;
}

}  // namespace tensord::compiler
