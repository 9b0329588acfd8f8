// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/rows.h"

#include <algorithm>

#include "compiler/schedule/cuda/column_tiles.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/row_passes.h"
#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Vectors of a pointwise row that a thread does.
constexpr int kVectorsOfPointwise = 8;
// Vectors of a row that a thread loads before it stores the first: of all operands together, or of
// each where rows are rare or gathered.
constexpr int kMostLoadedFirst = 8;

// A thread loads its vectors of a row, of so many operands, before it stores the first, where they
// are few.
void LoadFirst(const RowVectors& vectors, int operands, CudaRows* rows) {
  const auto count = vectors.count.AsConstant();
  const int group = rows->group.threads;
  if (!count || *count > int64_t{kMostLoadedFirst / std::max(1, operands)} * group) return;
  rows->group.register_vectors = static_cast<int>(sym::CeilDiv(*count, group));
  rows->loads_first = true;
}

// A warp looks whether a row is wanted: a thread for each vector would be many that only look.
CudaPlan WarpsOfPointwiseRows(const NestContext& context) {
  const RowVectors vectors = AlignedRowVectors(context);
  CudaPlan plan{.width = vectors.width, .threads = context.Threads(kUsualThreads)};
  CudaRows rows{.group = {.threads = PartOfWarp(vectors.Hint())}};
  LoadFirst(vectors, /*operands=*/1, &rows);
  plan.kind = rows;
  plan.blocks = sym::CeilDiv(context.rows, Expr(plan.groups()));
  return plan;
}

// Every thread of a block runs through its part of the row, with several vectors under way.
CudaPlan BlocksOfPointwiseRows(const NestContext& context) {
  const RowVectors vectors = ChooseRowVectors(context, /*may_peel=*/true);
  CudaPlan plan{.width = vectors.width, .blocks = context.rows};
  plan.threads = context.Threads(static_cast<int>(std::clamp<int64_t>(
      RoundUpToWarp(vectors.Hint() / kVectorsOfPointwise), kLeastThreadsOfRow, 2 * kUsualThreads)));
  CudaRows rows{.group = {.threads = plan.threads, .access = vectors.access}};
  if (vectors.access == RowAccess::kAligned) {
    LoadFirst(vectors, VectorOperands(context.nest), &rows);
  }
  plan.kind = rows;
  return plan;
}

CudaPlan TilesOfColumns(const NestContext& context) {
  const ColumnTiling tiling = TileColumns(context);
  return {.width = tiling.width,
          .threads = tiling.threads,
          .blocks = tiling.blocks,
          .resident = tiling.resident,
          .kind = CudaRows{.group = tiling.group, .loops = true, .column_tiles = tiling.tiles}};
}

CudaPlan RowsInPasses(const NestContext& context) {
  const RowVectors vectors = ChooseRowVectors(context, /*may_peel=*/false);
  const RowPasses passes = PlanRowPasses(context, vectors);
  return {.width = vectors.width,
          .threads = passes.threads,
          .blocks = passes.blocks,
          .kind = CudaRows{.group = passes.group, .loops = passes.loops}};
}

CudaPlan ChooseRows(const NestContext& context) {
  const Nest& nest = context.nest;
  if (!IsPointwise(nest)) return RowsInPasses(context);
  if (context.widths.prefers_columns && nest.inner.size() == 1) return TilesOfColumns(context);
  if (AreWiderWithinRows(context.widths) && !MayLoadUnaligned(context.widths, /*may_peel=*/true)) {
    return RowsInPasses(context);
  }
  return IsRare(nest) || GathersRows(nest) ? WarpsOfPointwiseRows(context)
                                           : BlocksOfPointwiseRows(context);
}

}  // namespace

absl::Status CanScheduleRows(const NestContext& context) {
  if (HasColumnSums(context.nest)) return Reject("it reduces over rows");
  if (HasScans(context.nest)) return Reject("it scans its rows");
  return absl::OkStatus();
}

CudaPlan ScheduleRows(const NestContext& context) {
  CudaPlan plan = ChooseRows(context);
  auto& rows = std::get<CudaRows>(plan.kind);
  rows.evicts_loads_last = OverflowsCache(context.program, context.nest, context.target);
  PlanRowInside(context.nest, plan, &rows.group);
  return plan;
}

}  // namespace tensord::compiler
