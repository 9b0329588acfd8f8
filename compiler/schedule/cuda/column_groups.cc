// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/column_groups.h"

#include <algorithm>

#include "compiler/schedule/cuda/combine.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Threads of a multiprocessor that a reduction should have: with a column each where there are
// enough columns.
constexpr int64_t kThreadsOfColumns = 1024;
// Rows that are worth sharing, and those that a thread should have at least: it combines what it
// has with the others'.
constexpr int64_t kLeastRows = 32;
constexpr int64_t kLeastRowsOfThread = 4;
// Of a thread, where several blocks share columns: the last of them reads what all have left.
constexpr int64_t kLeastRowsOfPart = 16;
constexpr int64_t kMostParts = 64;
// Blocks of a multiprocessor.
constexpr int64_t kBlocksWanted = 4;
// Neighbouring threads read whole sectors of the cache, of so many bytes.
constexpr int64_t kLeastBytesOfBlock = 64;
constexpr int kRowsInFlight = 4;

int64_t RowsOf(const Nest& nest) {
  Expr rows(1);
  for (size_t i = 0; i + 1 < nest.inner.size(); ++i) rows *= nest.inner[i];
  return sym::Hint(rows);
}

int64_t VectorsOf(const NestContext& context) {
  return std::max<int64_t>(1, sym::Hint(context.ColumnVectors(context.widths.aligned)));
}

// Of the operand with the smallest elements, those of one vector.
int64_t BytesOfVector(const NestContext& context) {
  int64_t smallest = 8;
  for (const Inst& inst : context.nest.members[0].loops.block.insts) {
    if (inst.kind == InstKind::kLoad) smallest = std::min(smallest, ItemSize(inst.storage));
  }
  return smallest * context.widths.aligned;
}

}  // namespace

absl::Status CanScheduleColumnGroups(const NestContext& context) {
  const Nest& nest = context.nest;
  if (nest.shape != NestShape::kBlocked) return Reject("its columns do not run in blocks");
  if (nest.members[0].loops.reductions.empty()) return Reject("it reduces nothing");
  if (HasScans(nest)) return Reject("it scans its rows in order");
  if (RowsOf(nest) < kLeastRows) return Reject("a thread has few rows");
  const int64_t threads = sym::Hint(context.rows) * VectorsOf(context);
  if (threads >= kThreadsOfColumns * context.Multiprocessors()) {
    return Reject("there are columns enough for the machine");
  }
  return absl::OkStatus();
}

CudaPlan ScheduleColumnGroups(const NestContext& context) {
  const Nest& nest = context.nest;
  CudaPlan plan{.width = context.widths.aligned, .threads = context.Threads(kUsualThreads)};
  const int64_t vectors = VectorsOf(context), rows = RowsOf(nest);
  const int64_t outer = std::max<int64_t>(1, sym::Hint(context.rows));
  const int64_t wanted = kBlocksWanted * context.Multiprocessors();
  const auto blocks = [&](int64_t columns) { return outer * sym::CeilDiv(vectors, columns); };
  CudaColumnGroups groups{.columns = PartOfWarp(vectors), .rows_in_flight = kRowsInFlight};
  // Fewer columns of a block are more blocks, and more threads for each.
  while (groups.columns > 1 && blocks(groups.columns) < wanted &&
         groups.columns / 2 * BytesOfVector(context) >= kLeastBytesOfBlock &&
         rows / (2 * plan.threads / groups.columns) >= kLeastRowsOfThread) {
    groups.columns /= 2;
  }
  const int64_t sharers = plan.threads / groups.columns;
  const int64_t useful = rows / (sharers * kLeastRowsOfPart);
  groups.parts = static_cast<int>(
      std::clamp<int64_t>(std::min(useful, wanted / blocks(groups.columns)), 1, kMostParts));
  groups.combine_bytes = static_cast<int>(BytesOfCombinedVectors(plan, ReductionsOf(nest)));
  const Expr tiles = sym::CeilDiv(context.ColumnVectors(plan.width), Expr(groups.columns));
  plan.blocks = context.rows * tiles * groups.parts;
  plan.kind = groups;
  return plan;
}

}  // namespace tensord::compiler
