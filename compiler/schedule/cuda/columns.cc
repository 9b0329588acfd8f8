// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/columns.h"

#include <algorithm>

#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

constexpr int kThreadsOfBlock = 128;
// A scan stores all that it loads, in order, so its threads live long: vectors are narrower where
// fewer threads of a multiprocessor would have columns, and blocks smaller where a block would have
// none.
constexpr int64_t kThreadsThatScan = 512;
// Elements whose loads a scanning thread has under way at once, of all operands.
constexpr int kElementsInFlight = 16;

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
    const int of_row = plan.width * std::max(1, VectorOperands(context.nest));
    plan.kind = CudaColumns{.rows_in_flight = std::max(2, kElementsInFlight / of_row)};
  }
  // The vector loop is the last inner one; the others run inside of a thread.
  plan.blocks = sym::CeilDiv(context.rows * VectorsOf(context, plan.width), Expr(plan.threads));
  return plan;
}

}  // namespace tensord::compiler
