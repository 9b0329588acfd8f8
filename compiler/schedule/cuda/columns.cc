// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/columns.h"

#include <algorithm>
#include <bit>

#include "compiler/schedule/cuda/scan_depths.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

constexpr int kThreadsOfBlock = 128;
// A scan stores all that it loads, in order, so its threads live long: vectors are narrower where
// fewer threads of a multiprocessor would have columns, and blocks smaller where a block would have
// none.
constexpr int64_t kThreadsThatScan = 512;
// Bytes whose loads the scanning threads of a multiprocessor should have under way at once, and
// what one of them has at least and at most. Open sizes take registers for addresses besides, and
// long formulas text.
constexpr int64_t kBytesInFlight = 32 << 10;
constexpr int64_t kLeastInFlight = 64;
constexpr int64_t kMostInFlight = 256;
constexpr int kLongFormula = 8;  // instructions
// Few columns are scanned in parts, by so many threads of a multiprocessor, which have twice as
// much under way. A thread combines the totals of all parts before its own.
constexpr int64_t kThreadsOfParts = 256;
constexpr int64_t kRowsOfPart = 32;  // at least
constexpr int64_t kLeastParts = 4;   // fewer gain less than reading everything twice costs
constexpr int64_t kMostPartsOfColumns = 64;
constexpr int64_t kElementsInFlight = 64;  // of a thread, at most: narrow ones become wide
constexpr int kMostThreadsOfParts = 512;  // of a multiprocessor: what their registers find room for

// With one element a thread there are as many threads as the library's scan has.
void SpreadColumns(const NestContext& context, CudaPlan* plan) {
  const int64_t wanted = kThreadsThatScan * context.Multiprocessors();
  const auto threads = [&] { return sym::Hint(context.rows * context.ColumnVectors(plan->width)); };
  while (plan->width > 1 && threads() < wanted) plan->width /= 2;
  while (context.fixed_threads == 0 && plan->threads > kWarp &&
         threads() < int64_t{plan->threads} * context.Multiprocessors()) {
    plan->threads /= 2;
  }
}

int64_t BytesOfRow(const NestContext& context, int width) {
  int64_t largest = 1;
  for (const Inst& inst : context.nest.members[0].loops.block.insts) {
    if (inst.kind == InstKind::kLoad) largest = std::max(largest, ItemSize(inst.storage));
  }
  return largest * width * std::max(1, VectorOperands(context.nest));
}

bool HasLongFormula(const Nest& nest) {
  const std::vector<Inst>& insts = nest.members[0].loops.block.insts;
  return std::any_of(insts.begin(), insts.end(), [](const Inst& inst) {
    return inst.kind == InstKind::kScan && InfoOf(inst.op).cost > kLongFormula;
  });
}

// Elements of the innermost scanned loop.
int64_t LengthOf(const Nest& nest) { return sym::Hint(nest.inner[nest.inner.size() - 2]); }

// Of columns that threads have in vectors of this width.
int Parts(const NestContext& context, int width) {
  if (context.nest.inner.size() != 2 || !MayScanInParts(context.nest)) return 1;
  const int64_t wanted = kThreadsOfParts * context.Multiprocessors();
  const int64_t columns = sym::Hint(context.rows * context.ColumnVectors(1));
  const int64_t threads = sym::Hint(context.rows * context.ColumnVectors(width));
  const int64_t useful = LengthOf(context.nest) / kRowsOfPart;
  if (2 * columns > wanted || threads < 1 || useful < kLeastParts) return 1;
  return static_cast<int>(std::min({wanted / threads, useful, kMostPartsOfColumns}));
}

// Rows whose loads a thread has under way: more where there are few threads.
int RowsInFlight(const NestContext& context, int width, int parts) {
  const Nest& nest = context.nest;
  const int64_t threads =
      std::max<int64_t>(1, sym::Hint(context.rows * context.ColumnVectors(width)) * parts /
                               context.Multiprocessors());
  const bool is_long = HasLongFormula(nest) || !sym::Product(nest.inner).AsConstant();
  const int64_t most = is_long ? kLeastInFlight : kMostInFlight;
  const int64_t under_way = parts > 1 ? 2 * kBytesInFlight : kBytesInFlight;
  const int64_t bytes = std::clamp(under_way / threads, kLeastInFlight, most);
  const int64_t length = std::max<int64_t>(2, LengthOf(nest));
  const int64_t most_rows = parts > 1 ? std::min(length, kElementsInFlight / width) : length;
  const int64_t rows = std::clamp<int64_t>(bytes / BytesOfRow(context, width), 2, most_rows);
  return static_cast<int>(std::bit_floor(static_cast<uint64_t>(rows)));
}

}  // namespace

absl::Status CanScheduleColumns(const NestContext& context) {
  const Nest& nest = context.nest;
  if (nest.shape != NestShape::kBlocked) return Reject("its columns do not run in blocks");
  if (nest.members[0].loops.reductions.empty() && !HasScans(nest)) {
    return Reject("it neither reduces nor scans");
  }
  return absl::OkStatus();
}

CudaPlan ScheduleColumns(const NestContext& context) {
  CudaPlan plan{.width = context.widths.aligned,
                .threads = context.Threads(kThreadsOfBlock),
                .kind = CudaColumns{}};
  int parts = 1;
  if (HasScans(context.nest)) {
    parts = Parts(context, plan.width);
    if (parts == 1) SpreadColumns(context, &plan);
    if (parts > 1) plan.resident = std::max(1, kMostThreadsOfParts / plan.threads);
    plan.kind =
        CudaColumns{.rows_in_flight = RowsInFlight(context, plan.width, parts), .parts = parts};
  }
  // The vector loop is the last inner one; the others run inside of a thread.
  plan.blocks =
      sym::CeilDiv(context.rows * context.ColumnVectors(plan.width) * parts, Expr(plan.threads));
  return plan;
}

}  // namespace tensord::compiler
