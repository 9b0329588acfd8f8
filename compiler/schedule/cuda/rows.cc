// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/rows.h"

#include <algorithm>

#include "compiler/schedule/cuda/column_tiles.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Vectors of a pointwise row that a thread does, and of one with reductions that it should have
// under way.
constexpr int kVectorsOfPointwise = 8;
constexpr int kVectorsOfReduced = 4;
// Rows of fewer vectors belong to a warp or a part of one.
constexpr int kMostVectorsOfWarp = 128;
constexpr int kThreadsOfWarps = 128;
constexpr int kLeastThreadsOfReduced = 64;
// Vectors of a row that a thread loads before it stores the first: of all operands together, or of
// each where rows are rare or gathered.
constexpr int kMostLoadedFirst = 8;
// Shared memory that every device has without asking for more.
constexpr int64_t kPlainShared = 48 << 10;
// Left to the kernel's own static arrays.
constexpr int64_t kStaticShared = 4 << 10;

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

// The threads of a block and of a row.
std::pair<int, int> ChooseGroup(const NestContext& context, int64_t vectors) {
  const int64_t rows = std::max<int64_t>(1, sym::Hint(context.rows));
  const int fixed = context.fixed_threads, multiprocessors = context.Multiprocessors();
  if (vectors <= kMostVectorsOfWarp &&
      (fixed > 0 || rows >= 4 * multiprocessors || vectors <= kWarp)) {
    const int group = PartOfWarp(vectors);
    int threads = context.Threads(kThreadsOfWarps);
    // Few rows: small blocks, so that every multiprocessor has one.
    while (fixed == 0 && threads > kWarp &&
           rows < int64_t{multiprocessors} * (threads / group) * 2) {
      threads /= 2;
    }
    return {threads, group};
  }
  const int64_t wanted = RoundUpToWarp(sym::CeilDiv(vectors, kVectorsOfReduced));
  const int threads = context.Threads(
      static_cast<int>(std::clamp<int64_t>(wanted, kLeastThreadsOfReduced, kMostThreads)));
  return {threads, threads};
}

// The row is too long for registers: the values for later passes lie in shared memory where they
// find room.
bool FitsSharedMemory(const NestContext& context, int64_t bytes) {
  const int64_t room =
      std::max<int64_t>(kPlainShared, context.target.shared_bytes_per_block()) - kStaticShared;
  return bytes <= room && sym::Product(context.nest.inner).AsConstant().has_value();
}

CudaPlan RowsInPasses(const NestContext& context) {
  const RowVectors vectors = ChooseRowVectors(context, /*may_peel=*/false);
  CudaPlan plan{.width = vectors.width};
  CudaRows rows{.group = {.access = vectors.access}};
  std::tie(plan.threads, rows.group.threads) = ChooseGroup(context, vectors.Hint());
  rows.group.register_vectors =
      VectorsInRegisters(context, vectors, rows.group.threads, plan.threads);
  if (rows.group.register_vectors > 0) {
    plan.blocks = sym::CeilDiv(context.rows, Expr(plan.threads / rows.group.threads));
  } else {
    const int64_t bytes = BytesOfRowValues(context.program, context.nest);
    plan.threads = rows.group.threads = context.Threads(kMostThreads);
    rows.loops = bytes > 0 && !FitsSharedMemory(context, bytes);
    plan.blocks =
        rows.loops ? sym::Min(context.rows, Expr(2 * context.Multiprocessors())) : context.rows;
  }
  plan.kind = rows;
  return plan;
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
