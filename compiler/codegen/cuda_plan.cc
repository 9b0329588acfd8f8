#include "compiler/codegen/cuda_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tensord::compiler {
namespace {

constexpr int kWarp = 32;
constexpr int kUsualThreads = 256;
constexpr int kMostThreads = 1024;
// A vector of more than this many bytes of one operand brings nothing over two loads.
constexpr int kAccessBytes = 16;
constexpr int kMostVectorBytes = 32;  // of the widest operand
constexpr int kMostWidth = 8;
// Bodies of more instructions than this per element run with short vectors, for registers.
constexpr int kHeavyBody = 400;
constexpr int kHeavyWidth = 4;
// Elements of a row that a thread may hold for each array that later passes read.
constexpr int kMostHeld = 64;
// Vectors that a thread of a block should have under way for its row.
constexpr int kUsualChunks = 4;
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
// Elements of a row that a thread of a warp holds for each array, beside accumulators of as many.
constexpr int kMostHeldInSweep = 24;
// A part of a split row has at least this many vectors for each thread.
constexpr int kLeastVectorsOfPart = 4;

bool HasColumnSums(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(),
                     [](const NestMember& m) { return m.reduces_outer; });
}

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

// The widest vectors that divide the innermost loop and keep every access aligned.
int ChooseWidth(const Program& program, const Nest& nest) {
  if (nest.inner.empty()) return 1;
  const int last = static_cast<int>(nest.outer.size() + nest.inner.size()) - 1;
  int smallest = 8, largest = 1;
  std::vector<std::pair<int, int64_t>> alignments;
  ForEachVectorAccess(program, nest, [&](DType storage, const Expr& index) {
    const int size = static_cast<int>(ItemSize(storage));
    const int64_t alignment = VectorAlignment(index, {sym::AtomKind::kLoop, last});
    largest = std::max(largest, size);
    if (alignment == 0) return;
    if (size > 1) smallest = std::min(smallest, size);
    alignments.emplace_back(size, alignment);
  });
  if (alignments.empty()) return 1;
  int width = std::min({kMostWidth, kAccessBytes / smallest, kMostVectorBytes / largest});
  if (BodyCost(nest) > kHeavyBody) width = std::min(width, kHeavyWidth);
  const auto fits = [&](int w) {
    if (!sym::ExactDiv(nest.inner.back(), Expr(w))) return false;
    return std::all_of(alignments.begin(), alignments.end(),
                       [w](const auto& access) { return access.second % w == 0; });
  };
  while (width > 1 && !fits(width)) width /= 2;
  return std::max(width, 1);
}

int RoundUpToWarp(int64_t threads) {
  return static_cast<int>((threads + kWarp - 1) / kWarp) * kWarp;
}

int64_t HeldBytes(const Program& program, const Nest& nest) {
  int64_t bytes = 0;
  for (BufferId id : LocalsOfRows(nest)) {
    bytes += ItemSize(ComputeType(program.buffers[id].dtype));
  }
  return bytes * sym::Hint(sym::Product(nest.inner));
}

class Planner {
 public:
  Planner(const Program& program, const Nest& nest, const v1::CudaTarget& target, int fixed_threads)
      : program_(program), nest_(nest), target_(target), fixed_(fixed_threads) {
    plan_.width = ChooseWidth(program, nest);
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
    if (plan_.tiles && BodyCost(nest_) > kHeavyBody) plan_.tiles->unroll = 1;
    plan_.kind = plan_.tiles ? CudaPlan::kTiles : CudaPlan::kElements;
    plan_.blocks =
        plan_.tiles ? plan_.tiles->blocks : sym::CeilDiv(rows_ * vectors_, Expr(plan_.threads));
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
    if (sums) {
      ChooseSweepGroup(vectors);
    } else {
      ChooseGroup(vectors, rows);
    }
    const bool is_static = vectors_.AsConstant().has_value();
    const int64_t chunks = (vectors + plan_.group - 1) / plan_.group;
    const int64_t held = chunks * plan_.width;
    if (is_static && held <= (plan_.threads > 512 ? kMostHeld / 2 : kMostHeld)) {
      plan_.chunks = static_cast<int>(chunks);
    } else {
      Loop(sums);
    }
    if (sums) {
      plan_.resident = std::max(1, kRowSweepThreads / plan_.threads);
      Bound(sym::CeilDiv(rows_, Expr(plan_.groups())), Multiprocessors() * plan_.resident);
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

  // A warp needs no barrier to reduce a row; what it cannot hold is a block's.
  void ChooseSweepGroup(int64_t vectors) {
    const int64_t chunks = (vectors + kWarp - 1) / kWarp;
    if (chunks * plan_.width <= kMostHeldInSweep) {
      plan_.group =
          static_cast<int>(std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
      return Threads(kRowSweepThreads / 3);
    }
    Threads(static_cast<int>(
        std::clamp<int64_t>(RoundUpToWarp((vectors + 1) / 2), kRowSweepThreads / 3, kMostThreads)));
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
