// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/columns.h"

#include <algorithm>
#include <bit>

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

Expr VectorsOf(const NestContext& context, int width) {
  return context.nest.inner.empty() ? Expr(1)
                                    : sym::FloorDiv(context.nest.inner.back(), Expr(width));
}

// With one element a thread there are as many threads as the library's scan has.
void SpreadColumns(const NestContext& context, CudaPlan* plan) {
  const int64_t wanted = kThreadsThatScan * context.Multiprocessors();
  const auto threads = [&] { return sym::Hint(context.rows * VectorsOf(context, plan->width)); };
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

// Rows whose loads a thread has under way: more where there are few threads.
int RowsInFlight(const NestContext& context, int width) {
  const Nest& nest = context.nest;
  const int64_t threads = std::max<int64_t>(
      1, sym::Hint(context.rows * VectorsOf(context, width)) / context.Multiprocessors());
  const bool is_long = HasLongFormula(nest) || !sym::Product(nest.inner).AsConstant();
  const int64_t most = is_long ? kLeastInFlight : kMostInFlight;
  const int64_t bytes = std::clamp(kBytesInFlight / threads, kLeastInFlight, most);
  const int64_t length = std::max<int64_t>(2, sym::Hint(nest.inner[nest.inner.size() - 2]));
  const int64_t rows = std::clamp<int64_t>(bytes / BytesOfRow(context, width), 2, length);
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
  if (HasScans(context.nest)) {
    SpreadColumns(context, &plan);
    plan.kind = CudaColumns{.rows_in_flight = RowsInFlight(context, plan.width)};
  }
  // The vector loop is the last inner one; the others run inside of a thread.
  plan.blocks = sym::CeilDiv(context.rows * VectorsOf(context, plan.width), Expr(plan.threads));
  return plan;
}

}  // namespace tensord::compiler
