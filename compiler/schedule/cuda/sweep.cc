// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/sweep.h"

#include <algorithm>

#include "compiler/schedule/cuda/column_tiles.h"
#include "compiler/schedule/cuda/combine.h"
#include "compiler/schedule/cuda/prefetching_sweep.h"
#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Elements of a row that a thread of a block usually has in registers.
constexpr int kUsualRegisterElements = 64;
// Threads of a multiprocessor that hold accumulators for a row beside the row; fewer where each
// holds so much that more would spill.
constexpr int kThreadsWithColumns = 384;
constexpr int kManyRegisterElements = 96;
constexpr int kThreadsWithMany = 256;
// Where only totals outlive a row: registers of a thread beside what it holds. The blocks must all
// have room at once, for those that come late would sweep alone. Rows of fewer vectors for each
// thread end so often that more blocks, with fewer registers, do better.
constexpr int kRegistersOfTotals = 64;
constexpr int kRegistersOfShortRows = 32;
constexpr int kVectorsOfShortRow = 32;

// As many blocks as there is work for, but no more than `most`. Each leaves a copy.
void BoundBlocks(const Expr& wanted, int most, CudaSweep* sweep, Expr* blocks) {
  *blocks = sym::Min(wanted, Expr(std::max(most, 1)));
  // Somebody has to say what the total of nothing is.
  if (!sweep->finish) *blocks = sym::Max(*blocks, Expr(1));
  sweep->copies = *blocks;
}

CudaPlan SweepElements(const NestContext& context) {
  CudaPlan plan{.width = context.widths.aligned, .threads = context.Threads(kUsualThreads)};
  CudaSweep sweep;
  BoundBlocks(sym::CeilDiv(context.rows * context.aligned_vectors, Expr(plan.threads)),
              context.SweepBlocks(plan.threads), &sweep, &plan.blocks);
  plan.kind = sweep;
  return plan;
}

CudaPlan SweepColumns(const NestContext& context) {
  const ColumnTiling tiling = TileColumns(context);
  return {.width = tiling.width,
          .threads = tiling.threads,
          .blocks = tiling.blocks,
          .resident = tiling.resident,
          .kind = CudaSweep{.group = tiling.group,
                            .column_tiles = tiling.tiles,
                            .copies = tiling.copies,
                            .finish = FinishOf(context.nest)}};
}

// Who sweeps over rows of these vectors.
struct Sweepers {
  RowVectors vectors;
  int threads;  // of a block
  int group;    // of a row
  int register_vectors;
  std::optional<PrefetchingSweep> prefetch;
};

// A warp needs no barrier to reduce a row; what it cannot hold is a block's.
Sweepers ChooseSweepers(const NestContext& context, RowVectors vectors) {
  Sweepers s{.vectors = std::move(vectors)};
  const int64_t count = s.vectors.Hint();
  const int64_t of_vector = RegisterElementsOfVector(context, s.vectors.width);
  const bool is_even =
      s.vectors.access == RowAccess::kAligned && s.vectors.count.AsConstant().has_value();
  if (is_even && context.fixed_threads == 0) {
    s.prefetch = PlanPrefetchingSweep(context.nest, sym::Hint(context.rows), count, of_vector,
                                      context.Multiprocessors());
  }
  if (s.prefetch) {
    s.threads = s.prefetch->threads;
    s.group = s.prefetch->group;
  } else if (sym::CeilDiv(count, kWarp) * of_vector <= kMostRegisterElements) {
    s.threads = context.Threads(kLeastThreadsOfRow);
    s.group = PartOfWarp(count);
  } else {
    const int64_t of_thread = std::max<int64_t>(1, kUsualRegisterElements / of_vector);
    s.threads = context.Threads(static_cast<int>(std::clamp<int64_t>(
        RoundUpToWarp(sym::CeilDiv(count, of_thread)), kLeastThreadsOfRow, kMostThreads)));
    s.group = s.threads;
  }
  s.register_vectors = VectorsInRegisters(context, s.vectors, s.group, s.threads);
  return s;
}

// Blocks of a multiprocessor that sweep over rows: as near as may be to the threads wished, which
// bound what each thread may hold.
int ResidentBlocks(const NestContext& context, const Sweepers& s) {
  const int elements = s.register_vectors * s.vectors.width * RegisterResidentArrays(context.nest);
  if (!HasColumnAccumulators(context.nest)) {
    const bool is_short = sym::Hint(s.vectors.count) < int64_t{kVectorsOfShortRow} * s.group;
    const int registers = (is_short ? kRegistersOfShortRows : kRegistersOfTotals) + elements;
    return std::max(1, context.Registers() / registers / s.threads);
  }
  const int threads = elements > kManyRegisterElements ? kThreadsWithMany : kThreadsWithColumns;
  return std::max(1, (threads + s.threads / 2) / s.threads);
}

CudaPlan SweepRows(const NestContext& context) {
  const bool has_columns = HasColumnAccumulators(context.nest);
  Sweepers s = ChooseSweepers(context, ChooseRowVectors(context, /*may_peel=*/false));
  // Columns in memory are in whole vectors.
  if (s.register_vectors == 0 && has_columns) {
    s = ChooseSweepers(context, AlignedRowVectors(context));
  }
  if (s.register_vectors == 0) {
    // Small blocks, where no row stays in registers: while one finishes its row others read theirs.
    const bool holds = has_columns || BytesOfRowValues(context.program, context.nest) > 0;
    s.threads = s.group = context.Threads(holds ? kMostThreads : kUsualThreads);
  }
  CudaPlan plan{.width = s.vectors.width, .threads = s.threads};
  plan.resident = s.prefetch ? s.prefetch->resident : ResidentBlocks(context, s);
  CudaSweep sweep{.group = {.threads = s.group,
                            .register_vectors = s.register_vectors,
                            .access = s.vectors.access},
                  .prefetches = s.prefetch.has_value(),
                  .finish = FinishOf(context.nest)};
  BoundBlocks(sym::CeilDiv(context.rows, Expr(s.threads / s.group)),
              context.Multiprocessors() * plan.resident, &sweep, &plan.blocks);
  plan.kind = sweep;
  return plan;
}

}  // namespace

absl::Status CanScheduleSweep(const NestContext& context) {
  if (!HasColumnSums(context.nest)) return Reject("it reduces nothing over its rows or elements");
  if (HasScans(context.nest)) return Reject("it scans its rows");
  return absl::OkStatus();
}

CudaPlan ScheduleSweep(const NestContext& context) {
  const Nest& nest = context.nest;
  CudaPlan plan = nest.shape == NestShape::kFlat ? SweepElements(context)
                  : IsPureColumns(nest)          ? SweepColumns(context)
                                                 : SweepRows(context);
  auto& sweep = std::get<CudaSweep>(plan.kind);
  PlanRowInside(nest, plan, &sweep.group);
  PlanCombining(nest, plan, &sweep);
  return plan;
}

}  // namespace tensord::compiler
