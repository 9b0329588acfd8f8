#include "compiler/codegen/cuda_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/codegen/cuda_held.h"
#include "compiler/codegen/cuda_width.h"

namespace tensord::compiler {
namespace {

// Temporary: variants for a measurement.
int Variant(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}
int Sums() { return Variant("TENSORD_X_SUMS"); }
int Norms() { return Variant("TENSORD_X_DLN"); }
int Rms() { return Variant("TENSORD_X_RMS"); }
int Gathers() { return Variant("TENSORD_X_EMB"); }

constexpr int kWarp = 32;
constexpr int kUsualThreads = 256;
constexpr int kMostThreads = 1024;
// Scalars that every thread may compute for one vector, and the vectors for which it computes
// others.
constexpr int kCheapScalars = 30;
constexpr int kTurns = 4;
constexpr int kLoadCost = 6;
// Shorter rows are left in parts of a block that idle, and vectors that each thread does of others.
constexpr int64_t kLeastDearRow = 8192;
constexpr int kVectorsOfDearRow = 8;
// Elements of a row that a thread may hold, of all arrays together; in blocks of more than 512
// threads, which have 64 registers for each; and in a block that sweeps, usually.
constexpr int kMostHeld = 150;
constexpr int kMostHeldOfLarge = 24;
constexpr int kUsuallyHeldInSweep = 64;
// Vectors that a thread of a block should have under way for its row.
constexpr int kUsualChunks = 4;
// Rows of this many elements are read by interleaved lanes where aligned vectors would be so many
// times narrower than wished.
constexpr int64_t kLeastInterleaved = 1024;
constexpr int kMostWaste = 4;
// Bytes of an element.
constexpr int kNarrow = 4;
// Rows of fewer vectors belong to a warp or a part of one.
constexpr int kMostVectorsOfWarp = 128;
// Shared memory that every device has without asking for more.
constexpr int64_t kPlainShared = 48 << 10;
// Left to the kernel's own static arrays.
constexpr int64_t kStaticShared = 4 << 10;
// Threads of a multiprocessor that sweep: more hide latency better, fewer leave less to combine.
constexpr int kSweepThreads = 1024;
// The same where each thread has several vectors under way, and where it keeps as many registers as
// half of the threads have.
constexpr int kTileThreads = 768;
constexpr int kHeavyTileThreads = 512;
constexpr int kMostKeptOfTile = 40;
// Loads that a thread of a tile should have under way.
constexpr int kLoadsAtOnce = 4;
// The same where it holds accumulators for a row beside the row.
constexpr int kRowSweepThreads = 384;
constexpr int kRowSweepBlock = 128;
// The same where each thread holds so much that more would spill.
constexpr int kMuchHeldInSweep = 96;
constexpr int kMuchHeldThreads = 256;
// The same where only totals outlive a row.
constexpr int kTotalsThreads = 2048;
// A part of a split row has at least this many vectors for each thread.
constexpr int kLeastVectorsOfPart = 4;

bool IsPointwise(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return m.has_inner && m.position <= 1 && m.loops.reductions.empty();
  });
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

// Only the last vector of a row is not whole.
bool IsPartial(const Widths& w) { return w.partial > w.aligned && 2 * w.partial >= w.wished; }
// Vectors of neighbours would be much narrower than wished.
bool IsWasteful(const Widths& w) { return w.aligned * kMostWaste <= w.wished; }
bool MoreWithinRows(const Widths& w) { return w.straight && (IsPartial(w) || IsWasteful(w)); }

// What is computed and loaded for a row of a pointwise nest before its vectors, in instructions.
int RowCost(const Nest& nest) {
  const sym::SymbolKey last{sym::AtomKind::kLoop,
                            static_cast<int>(nest.outer.size() + nest.inner.size()) - 1};
  int cost = 0;
  for (const NestMember& member : nest.members) {
    std::vector<bool> varies;
    for (const Inst& inst : member.loops.block.insts) {
      const auto step = sym::LinearCoefficient(inst.index, last);
      bool differs =
          !step || !step->Is(0) || sym::ContainsKind(inst.index, sym::AtomKind::kIndirect);
      for (int arg : inst.args) differs = differs || varies[arg];
      if (inst.kind == InstKind::kCompute && !differs) cost += InfoOf(inst.op).cost;
      if (inst.kind == InstKind::kLoad && !differs) cost += kLoadCost;
      varies.push_back(differs);
    }
  }
  return cost;
}

// Rows whose scalars would cost more than a vector, were they computed for each.
bool HasDearRows(const Nest& nest) {
  return !nest.inner.empty() && sym::Hint(nest.inner.back()) >= kLeastDearRow &&
         RowCost(nest) > kCheapScalars;
}

// Rows of at least a warp's vectors whose places are found by one load after the other: a thread
// for each vector would wait as long for one of them as for several.
bool HasChasedRows(const Nest& nest) {
  if (Gathers() == 0 || nest.inner.empty() || sym::Hint(nest.inner.back()) < 128) return false;
  const sym::SymbolKey last{sym::AtomKind::kLoop,
                            static_cast<int>(nest.outer.size() + nest.inner.size()) - 1};
  bool chased = false;
  for (const NestMember& member : nest.members) {
    std::map<int, int> depth;  // by symbol: loads behind each other
    std::vector<int> of_value;
    const auto of_index = [&](const Expr& index) {
      int most = 0;
      sym::ForEachSymbol(index, [&](const sym::Atom& atom) {
        if (atom.kind == sym::AtomKind::kIndirect) most = std::max(most, depth[atom.id]);
      });
      return most;
    };
    for (const Inst& inst : member.loops.block.insts) {
      int most = of_index(inst.index);
      for (int arg : inst.args) most = std::max(most, of_value[arg]);
      if (inst.guard >= 0) most = std::max(most, of_value[inst.guard]);
      if (inst.kind == InstKind::kLoad) {
        chased = chased || (most >= 2 && sym::Contains(inst.index, last));
        ++most;
      }
      if (inst.kind == InstKind::kIndirect) depth[inst.symbol] = most;
      of_value.push_back(most);
    }
  }
  return chased;
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
    } else if (IsPointwise(nest_) && widths_.columns && nest_.inner.size() == 1) {
      Tile();
    } else if (IsPointwise(nest_) && !PaysByRows()) {
      Elements();
    } else if (IsPointwise(nest_) && (!MoreWithinRows(widths_) || LoadsAnywhere(true))) {
      RowsOfElements();
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
      if (IsHeavy(nest_)) plan_.tiles->unroll = 1;
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
    if (sums && IsPureColumns(nest_)) return Tile();
    if (!sums && MaySplit() && HasFewLongRows()) return Split(rows, vectors);
    UseWholeWidth();
    if (!HoldRow(sums) && HasColumnAccumulators()) {  // columns in memory are in whole vectors
      plan_.interleaved = plan_.partial = plan_.anywhere = false;
      SetWidth(widths_.aligned);
      HoldRow(sums);
    }
    if (plan_.chunks == 0) Loop(sums);
    if (plan_.chunks == 0 || plan_.partial || plan_.interleaved) plan_.ahead = false;
    if (!sums && Rms() > 0 && plan_.chunks > 0 && !plan_.partial && !plan_.interleaved) {
      const int early = EarlyLoads(nest_), held = HeldArrays(nest_);
      plan_.early = early > 0 && plan_.chunks * plan_.width * (early + held) <= 64;
      if (Rms() == 2 && plan_.early && plan_.group == plan_.threads && held == 1) {
        plan_.ahead = true;
        const int elements = plan_.chunks * plan_.width * (early + held);
        plan_.resident = std::max(1, (elements > 40 ? 512 : 768) / plan_.threads);
        Bound(rows_, Multiprocessors() * plan_.resident);
      }
    }
    if (sums) {
      const int resident = SweepersOfRows();
      if (HasColumnAccumulators()) plan_.resident = resident;
      Bound(sym::CeilDiv(rows_, Expr(plan_.groups())), Multiprocessors() * resident);
    } else if (!plan_.loops_rows) {
      plan_.blocks = sym::CeilDiv(rows_, Expr(plan_.groups()));
    }
  }

  // Groups of whole warps do their rows side by side: only plain states are combined, and nothing
  // of the whole block.
  bool MayHaveParts() const {
    return std::all_of(nest_.members.begin(), nest_.members.end(), [](const NestMember& m) {
      return std::all_of(m.loops.reductions.begin(), m.loops.reductions.end(),
                         [&](const Reduction& r) {
                           if (m.reduces_outer) return IsColumnSum(m);
                           return r.kind == ReduceKind::kSum || r.kind == ReduceKind::kMax ||
                                  r.kind == ReduceKind::kMin || r.kind == ReduceKind::kWelford;
                         });
    });
  }

  bool HasColumnAccumulators() const {
    return std::any_of(nest_.members.begin(), nest_.members.end(), IsColumnSum);
  }

  // Blocks of a multiprocessor that sweep over rows: as near as may be to the threads wished, which
  // with accumulators for columns bound what each thread may hold.
  int SweepersOfRows() const {
    if (chosen_ > 0) return chosen_;
    if (!HasColumnAccumulators()) return std::max(1, kTotalsThreads / plan_.threads);
    const int held = plan_.chunks * plan_.width * HeldArrays(nest_);
    const int threads = held > kMuchHeldInSweep ? kMuchHeldThreads : kRowSweepThreads;
    return std::max(1, (threads + plan_.threads / 2) / plan_.threads);
  }

  void ChooseGroup(int64_t vectors, int64_t rows) {
    if (vectors <= kMostVectorsOfWarp &&
        (fixed_ > 0 || rows >= 4 * Multiprocessors() || vectors <= kWarp)) {
      plan_.group = PartOfWarp(vectors);
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

  // Nothing is reduced, but only within rows are vectors wide, or scalars are shared.
  bool PaysByRows() const {
    if (nest_.outer.empty() || HasFewLongRows()) return false;
    return IsSeldom(nest_) || HasChasedRows(nest_) ||
           (IsLongRow() && (MoreWithinRows(widths_) || HasDearRows(nest_)));
  }

  // Every thread runs through its part of the row, with several vectors under way.
  void RowsOfElements() {
    if (IsSeldom(nest_) || HasChasedRows(nest_)) return SeldomRows();
    UseWholeWidth(/*may_peel=*/true);
    const int64_t vectors = std::max<int64_t>(1, sym::Hint(vectors_));
    Threads(static_cast<int>(std::clamp<int64_t>(RoundUpToWarp(vectors / kVectorsOfDearRow),
                                                 kRowSweepBlock, 2 * kUsualThreads)));
    plan_.kind = CudaPlan::kRows;
    plan_.group = plan_.threads;
    plan_.blocks = rows_;
  }

  // A warp looks whether a row is wanted: a thread for each vector would be many that only look.
  void SeldomRows() {
    plan_.kind = CudaPlan::kRows;
    Threads(kUsualThreads);
    plan_.group = PartOfWarp(std::max<int64_t>(1, sym::Hint(vectors_)));
    const auto vectors = vectors_.AsConstant();
    if (Gathers() > 0 && vectors && *vectors <= 8 * plan_.group) {
      plan_.chunks = static_cast<int>((*vectors + plan_.group - 1) / plan_.group);
      plan_.loads_first = true;
    }
    plan_.blocks = sym::CeilDiv(rows_, Expr(plan_.groups()));
  }

  // A row for each block would leave multiprocessors idle.
  bool HasFewLongRows() const {
    return sym::Hint(rows_) < Multiprocessors() &&
           sym::Hint(vectors_) >= int64_t{kLeastVectorsOfPart} * 2 * kUsualThreads;
  }

  // Wide vectors also where rows are no multiple of them, or not aligned.
  void UseWholeWidth(bool may_peel = false) {
    if (!IsLongRow()) return;
    if (IsPartial(widths_)) {
      plan_.partial = true;  // rows in wide memory, like a product's padded result
      SetWidth(widths_.partial);
    } else if (LoadsAnywhere(may_peel)) {
      plan_.partial = plan_.anywhere = true;
      plan_.peeled = !widths_.loads_anywhere;
      SetWidth(widths_.wished);
    } else if (IsWasteful(widths_)) {
      plan_.interleaved = true;
      SetWidth(widths_.wished);
    }
  }

  // Aligned vectors would be much narrower, but those of loads alone need not be aligned. Elements
  // of four bytes are read one by one as fast.
  bool LoadsAnywhere(bool may_peel) const {
    return IsWasteful(widths_) && !IsPartial(widths_) && widths_.narrowest < kNarrow &&
           (widths_.loads_anywhere || (may_peel && widths_.peeled));
  }

  // Places count lanes one by one.
  bool IsLongRow() const {
    return nest_.inner.size() == 1 && sym::Hint(nest_.inner[0]) >= kLeastInterleaved &&
           !FindsPlaces(nest_);
  }

  // The group of a row that a part of a warp has.
  static int PartOfWarp(int64_t vectors) {
    return static_cast<int>(
        std::min<int64_t>(kWarp, std::bit_ceil(static_cast<uint64_t>(vectors))));
  }

  // Chooses the group; true when its threads hold the whole row.
  bool HoldRow(bool sums) {
    const int64_t vectors = std::max<int64_t>(1, sym::Hint(vectors_));
    const int64_t of_vector = int64_t{plan_.width} * std::max(1, HeldArrays(nest_));
    if (sums) {
      ChooseSweepGroup(vectors, of_vector);
    } else {
      ChooseGroup(vectors, std::max<int64_t>(1, sym::Hint(rows_)));
    }
    const int64_t chunks = (vectors + plan_.group - 1) / plan_.group;
    const bool holds = vectors_.AsConstant().has_value() &&
                       chunks * of_vector <= (plan_.threads > 512 ? kMostHeldOfLarge : kMostHeld);
    plan_.chunks = holds ? static_cast<int>(chunks) : 0;
    return holds;
  }

  // A warp needs no barrier to reduce a row; what it cannot hold is a block's. `of_vector`:
  // elements that one vector of the row has in all arrays.
  void ChooseSweepGroup(int64_t vectors, int64_t of_vector) {
    const int columns = ColumnArrays(nest_), held = HeldArrays(nest_) - columns;
    if (columns > 0 && fixed_ == 0 && vectors_.AsConstant()) {
      if (held == 0 && Sums() > 0 && vectors >= 1024) {
        Threads(static_cast<int>(std::clamp<int64_t>(RoundUpToWarp((vectors + 7) / 8),
                                                     kRowSweepBlock, Sums() == 3 ? 512 : 512)));
        if (Sums() == 3) Threads(512);
        plan_.group = plan_.threads;
        plan_.ahead = Sums() > 1;
        chosen_ = std::max(1, 512 / plan_.threads);
        return;
      }
      if (held > 0 && Norms() > 0 && vectors > kWarp && MayHaveParts()) {
        const bool few = Norms() == 1;
        const int64_t most = few ? 72 : 40, chunks = std::max<int64_t>(1, most / of_vector);
        plan_.group = static_cast<int>(
            std::clamp<int64_t>(RoundUpToWarp((vectors + chunks - 1) / chunks), kWarp, 512));
        Threads(std::max(few ? 256 : 512, plan_.group) / plan_.group * plan_.group);
        plan_.ahead = Norms() != 2;
        const int64_t held_now = (vectors + plan_.group - 1) / plan_.group * of_vector;
        chosen_ = std::max(1, (held_now <= 40 ? 1024 : 512) / plan_.threads);
        return;
      }
    }
    if ((vectors + kWarp - 1) / kWarp * of_vector <= kMostHeld) {
      plan_.group = PartOfWarp(vectors);
      return Threads(kRowSweepBlock);
    }
    const int64_t chunks = std::max<int64_t>(1, kUsuallyHeldInSweep / of_vector);
    Threads(static_cast<int>(std::clamp<int64_t>(RoundUpToWarp((vectors + chunks - 1) / chunks),
                                                 kRowSweepBlock, kMostThreads)));
    plan_.group = plan_.threads;
  }

  // The row is too long for registers.
  void Loop(bool sums) {
    const int64_t bytes = HeldBytes(program_, nest_);
    // Small blocks, where nothing is held: while one finishes its row others read theirs.
    Threads(sums && bytes == 0 && !HasColumnAccumulators() ? kUsualThreads : kMostThreads);
    plan_.group = plan_.threads;
    const int64_t room =
        std::max<int64_t>(kPlainShared, target_.shared_bytes_per_block()) - kStaticShared;
    plan_.rows_in_shared =
        bytes <= room && sym::Product(nest_.inner).AsConstant().has_value() && !sums;
    if (!plan_.rows_in_shared && (bytes > 0 || sums)) Bound(rows_, 2 * Multiprocessors());
  }

  // A thread keeps to its columns: to what it sums, and to what it loads for them once.
  void Tile() {
    plan_.kind = HasColumnSums(nest_) ? CudaPlan::kSweep : CudaPlan::kRows;
    Threads(kUsualThreads);
    UseWholeWidth();
    // Few columns: a warp takes several rows at once.
    plan_.group = PartOfWarp(std::max<int64_t>(1, sym::Hint(vectors_)));
    plan_.chunks = 1;
    plan_.tiled = true;
    const Expr tiles = sym::CeilDiv(vectors_, Expr(plan_.group));
    const int64_t hint = std::max<int64_t>(1, sym::Hint(tiles));
    const bool heavy = widths_.of_columns * plan_.width > kMostKeptOfTile;
    plan_.resident = std::max(1, (heavy ? kHeavyTileThreads : kTileThreads) / plan_.threads);
    plan_.rows_at_once = std::clamp(kLoadsAtOnce / std::max(1, widths_.of_rows), 1, kLoadsAtOnce);
    const int64_t sweeps = std::max<int64_t>(1, Multiprocessors() * plan_.resident / hint);
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
  int chosen_ = 0;
};

}  // namespace

Nest PrepareForCuda(const Program& program, Nest nest) {
  const auto first = std::stable_partition(nest.members.begin(), nest.members.end(),
                                           [](const NestMember& m) { return m.has_outer; });
  nest.after.assign(first, nest.members.end());
  nest.members.erase(first, nest.members.end());
  if (nest.shape != NestShape::kFlat) return nest;
  for (NestMember& member : nest.members) member.reduces_outer = member.reduces_inner;
  if (nest.inner.size() < 2 || !IsPointwise(nest)) return nest;
  const Widths widths = ChooseWidth(program, nest);
  if (widths.columns || HasDearRows(nest) || IsSeldom(nest) || HasChasedRows(nest) ||
      (MoreWithinRows(widths) && sym::Hint(nest.inner.back()) >= kLeastInterleaved)) {
    nest.outer.assign(nest.inner.begin(), nest.inner.end() - 1);
    nest.inner.erase(nest.inner.begin(), nest.inner.end() - 1);
    nest.shape = NestShape::kTiled;
  }
  return nest;
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
  std::string text = absl::StrCat(kNames[plan.kind], " w", plan.width);
  if (plan.tiles) {
    absl::StrAppend(&text, " ", plan.tiles->along, "x", plan.tiles->across);
    for (const TileOperand& operand : plan.tiles->operands)
      absl::StrAppend(&text, " r", operand.run);
  }
  absl::StrAppend(&text, " t", plan.threads, " g", plan.group, " c", plan.chunks);
  if (plan.interleaved) text += " interleaved";
  if (plan.partial) text += " partial";
  if (plan.anywhere) text += plan.peeled ? " peeled" : " anywhere";
  if (plan.tiled) text += " tiled";
  if (plan.loops_rows) text += " loops";
  if (plan.turns > 1) absl::StrAppend(&text, " turns", plan.turns);
  if (plan.parts > 1) absl::StrAppend(&text, " parts", plan.parts);
  return text;
}

}  // namespace tensord::compiler
