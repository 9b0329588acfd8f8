#include "compiler/codegen/cuda_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/check.h"
#include "compiler/codegen/cpp_text.h"
#include "compiler/codegen/cuda_held.h"
#include "compiler/codegen/cuda_sweep_ahead.h"
#include "compiler/codegen/cuda_threads.h"
#include "compiler/codegen/cuda_traits.h"
#include "compiler/codegen/cuda_width.h"

namespace tensord::compiler {
namespace {

constexpr int kUsualThreads = 256;
constexpr int kMostThreads = 1024;
// Vectors for which a thread computes scalars that are dear, and that it does of a row of such.
constexpr int kTurns = 4;
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
// The same where each thread has several vectors under way; but kSweepThreads where these are of
// several operands and little is kept beside, and fewer where much is.
constexpr int kTileThreads = 768;
constexpr int kHeavyTileThreads = 512;
constexpr int kMostKeptOfTile = 40;
constexpr int kMostKeptOfLightTile = 20;
// Loads that a thread of a tile should have under way.
constexpr int kLoadsAtOnce = 4;
// The same where it holds accumulators for a row beside the row.
constexpr int kRowSweepThreads = 384;
constexpr int kRowSweepBlock = 128;
// The same where each thread holds so much that more would spill.
constexpr int kMuchHeldInSweep = 96;
constexpr int kMuchHeldThreads = 256;
// Where only totals outlive a row: registers of a thread beside what it holds. The blocks must all
// have room at once, for those that come late would sweep alone. Rows of fewer vectors for each
// thread end so often that more blocks, with fewer registers, do better.
constexpr int kRegistersOfTotals = 64;
constexpr int kRegistersOfShortRows = 32;
constexpr int kVectorsOfShortRow = 32;
// Vectors of a row that a thread loads before it stores the first: of all operands together, or of
// each where rows are seldom or found by loads.
constexpr int kMostLoadedFirst = 8;
// A part of a split row has at least this many vectors for each thread.
constexpr int kLeastVectorsOfPart = 4;

// Only the last vector of a row is not whole.
bool IsPartial(const Widths& w) { return w.partial > w.aligned && 2 * w.partial >= w.wished; }
// Vectors of neighbours would be much narrower than wished.
bool IsWasteful(const Widths& w) { return w.aligned * kMostWaste <= w.wished; }
bool MoreWithinRows(const Widths& w) { return w.straight && (IsPartial(w) || IsWasteful(w)); }

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
      plan_.last_block = true;
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
  int Registers() const {  // of a multiprocessor
    const auto registers = static_cast<int>(target_.registers_per_multiprocessor());
    return registers > 0 ? registers : 64 << 10;
  }
  int SweepBlocks() const { return Multiprocessors() * std::max(1, kSweepThreads / plan_.threads); }
  void Threads(int wanted) { plan_.threads = fixed_ > 0 ? fixed_ : wanted; }
  // As many blocks as there is work for, but no more than `most`.
  void Bound(const Expr& wanted, int most) {
    plan_.loops_rows = true;
    plan_.blocks = sym::Min(wanted, Expr(std::max(most, 1)));
    // Somebody has to say what the total of nothing is.
    if (plan_.last_block) plan_.blocks = sym::Max(plan_.blocks, Expr(1));
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
    if (HasDearScalars(nest_)) plan_.turns = kTurns;
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
    if (sums) {
      if (!plan_.ahead) plan_.resident = SweepersOfRows();
      plan_.last_block = !HasColumnAccumulators();
      Bound(sym::CeilDiv(rows_, Expr(plan_.groups())), Multiprocessors() * plan_.resident);
    } else if (!plan_.loops_rows) {
      plan_.blocks = sym::CeilDiv(rows_, Expr(plan_.groups()));
    }
  }

  bool HasColumnAccumulators() const {
    return std::any_of(nest_.members.begin(), nest_.members.end(), IsColumnSum);
  }

  // Blocks of a multiprocessor that sweep over rows: as near as may be to the threads wished, which
  // bound what each thread may hold.
  int SweepersOfRows() const {
    const int held = plan_.chunks * plan_.width * HeldArrays(nest_);
    if (!HasColumnAccumulators()) {
      const bool is_short = sym::Hint(vectors_) < int64_t{kVectorsOfShortRow} * plan_.group;
      const int registers = (is_short ? kRegistersOfShortRows : kRegistersOfTotals) + held;
      return std::max(1, Registers() / registers / plan_.threads);
    }
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
    const int64_t wanted = RoundUpToWarp(sym::CeilDiv(vectors, kUsualChunks));
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
    if (!plan_.partial && !plan_.interleaved) LoadFirst(VectorOperands(nest_));
    plan_.blocks = rows_;
  }

  // A thread loads its vectors of a row, of so many operands, before it stores the first, where
  // they are few.
  void LoadFirst(int operands) {
    const auto vectors = vectors_.AsConstant();
    if (!vectors || *vectors > int64_t{kMostLoadedFirst / std::max(1, operands)} * plan_.group)
      return;
    plan_.chunks = static_cast<int>(sym::CeilDiv(*vectors, plan_.group));
    plan_.loads_first = true;
  }

  // A warp looks whether a row is wanted: a thread for each vector would be many that only look.
  void SeldomRows() {
    plan_.kind = CudaPlan::kRows;
    Threads(kUsualThreads);
    plan_.group = PartOfWarp(std::max<int64_t>(1, sym::Hint(vectors_)));
    LoadFirst(/*operands=*/1);
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

  // Chooses the group; true when its threads hold the whole row.
  bool HoldRow(bool sums) {
    const int64_t vectors = std::max<int64_t>(1, sym::Hint(vectors_));
    const int64_t of_vector = int64_t{plan_.width} * std::max(1, HeldArrays(nest_));
    if (sums) {
      ChooseSweepGroup(vectors, of_vector);
    } else {
      ChooseGroup(vectors, std::max<int64_t>(1, sym::Hint(rows_)));
    }
    const int64_t chunks = sym::CeilDiv(vectors, plan_.group);
    const bool holds = vectors_.AsConstant().has_value() &&
                       chunks * of_vector <= (plan_.threads > 512 ? kMostHeldOfLarge : kMostHeld);
    plan_.chunks = holds ? static_cast<int>(chunks) : 0;
    return holds;
  }

  // A warp needs no barrier to reduce a row; what it cannot hold is a block's. `of_vector`:
  // elements that one vector of the row has in all arrays.
  void ChooseSweepGroup(int64_t vectors, int64_t of_vector) {
    const bool even = !plan_.partial && !plan_.interleaved && vectors_.AsConstant().has_value();
    plan_.ahead = false;
    if (even && fixed_ == 0) {
      if (const auto ahead =
              PlanSweepAhead(nest_, sym::Hint(rows_), vectors, of_vector, Multiprocessors())) {
        plan_.ahead = true;
        plan_.group = ahead->group;
        plan_.resident = ahead->resident;
        return Threads(ahead->threads);
      }
    }
    if (sym::CeilDiv(vectors, kWarp) * of_vector <= kMostHeld) {
      plan_.group = PartOfWarp(vectors);
      return Threads(kRowSweepBlock);
    }
    const int64_t chunks = std::max<int64_t>(1, kUsuallyHeldInSweep / of_vector);
    Threads(static_cast<int>(std::clamp<int64_t>(RoundUpToWarp(sym::CeilDiv(vectors, chunks)),
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
    const int kept = widths_.of_columns * plan_.width;
    const bool light = kept <= kMostKeptOfLightTile && widths_.of_rows > 1;
    const int threads = kept > kMostKeptOfTile ? kHeavyTileThreads
                        : light                ? kSweepThreads
                                               : kTileThreads;
    plan_.resident = std::max(1, threads / plan_.threads);
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
    plan_.last_block = true;
    Threads(kUsualThreads);
    plan_.group = plan_.threads;
    const int64_t useful = vectors / (int64_t{kLeastVectorsOfPart} * plan_.threads);
    const int64_t wanted = sym::CeilDiv(SweepBlocks(), rows);
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
  TENSORD_CHECK(!plan.ahead || plan.chunks > 0, "what is loaded ahead has no registers");
  plan.evicts_loads_last = plan.kind == CudaPlan::kRows && OverflowsCache(program, nest, target);
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
  if (plan.ahead) text += " ahead";
  if (plan.loads_first) text += " loads-first";
  if (plan.evicts_loads_last) text += " evicts-loads-last";
  if (plan.turns > 1) absl::StrAppend(&text, " turns", plan.turns);
  if (plan.parts > 1) absl::StrAppend(&text, " parts", plan.parts);
  if (plan.last_block) text += " last-block";
  return text;
}

}  // namespace tensord::compiler
