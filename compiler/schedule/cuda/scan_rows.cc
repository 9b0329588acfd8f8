// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/scan_rows.h"

#include <algorithm>
#include <tuple>

#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/row_passes.h"
#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/scan_depths.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Elements that a thread loads, of all operands together, before it scans the first: a scan is a
// chain of exchanges between threads, during which nothing else would be under way.
constexpr int kMostElementsLoadedFirst = 48;
// Of a row that is too long for registers, those of one operand, in at most so many vectors.
constexpr int kElementsAtOnce = 16;
constexpr int kMostVectorsAtOnce = 8;

// Short rows that are many: threads of a multiprocessor that still scan where each has several
// vectors of its row, so that more loads are under way and fewer threads exchange what they have.
// Those of a group read a sector of the cache or two at once.
constexpr int64_t kThreadsOfShortRows = 1024;
constexpr int kRegisterVectorsOfShortRow = 4;
constexpr int kLeastGroup = 4;

// Blocks that share a row read it once more, in a launch of its own, which a block that has a
// shorter row alone does without.
constexpr int64_t kLeastElementsToShare = 32768;
constexpr int64_t kMostPartsOfScan = 1024;
constexpr int kThreadsOfParts = 768;  // of a multiprocessor, at least

bool ScansInOnePass(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(),
                     [](const NestMember& m) { return m.position == 1; });
}

// Of a row that is too long for registers.
int VectorsAtOnce(int width) { return std::clamp(kElementsAtOnce / width, 1, kMostVectorsAtOnce); }

bool LoadsFirst(const Nest& nest, int at_once, int width) {
  return at_once > 1 && at_once * width * VectorOperands(nest) <= kMostElementsLoadedFirst;
}

// Fewer threads for each row that fits a part of a warp.
void NarrowGroups(const NestContext& context, const RowVectors& vectors, RowPasses* passes) {
  RowGroup& group = passes->group;
  const int64_t wanted = kThreadsOfShortRows * context.Multiprocessors();
  while (group.threads <= kWarp && group.threads > kLeastGroup &&
         2 * group.register_vectors <= kRegisterVectorsOfShortRow &&
         sym::Hint(context.rows) * group.threads >= 2 * wanted) {
    group.threads /= 2;
    group.register_vectors = static_cast<int>(sym::CeilDiv(vectors.Hint(), group.threads));
  }
  passes->blocks = sym::CeilDiv(context.rows, Expr(passes->threads / group.threads));
}

// Of each row: so many that every multiprocessor has blocks, and that each thread has vectors.
int Parts(const NestContext& context, const RowVectors& vectors, int threads) {
  const int64_t rows = std::max<int64_t>(1, sym::Hint(context.rows));
  const bool is_long = sym::Hint(sym::Product(context.nest.inner)) >= kLeastElementsToShare;
  if (!is_long || 2 * rows > context.Multiprocessors() || !MayScanInParts(context.nest)) return 1;
  const int64_t useful = vectors.Hint() / (int64_t{VectorsAtOnce(vectors.width)} * threads);
  const int64_t wanted = sym::CeilDiv(context.SweepBlocks(threads), rows);
  return static_cast<int>(std::clamp<int64_t>(std::min(useful, wanted), 1, kMostPartsOfScan));
}

CudaPlan PartsOfRows(const NestContext& context, const RowVectors& vectors, int parts) {
  CudaPlan plan{.width = vectors.width,
                .threads = context.Threads(kUsualThreads),
                .blocks = context.rows * parts};
  plan.resident = std::max(1, kThreadsOfParts / plan.threads);
  CudaScanRows rows{.group = {.threads = plan.threads, .access = vectors.access}, .parts = parts};
  plan.kind = rows;
  PlanRowInside(context.nest, plan, &rows.group);
  const int at_once = rows.group.vectors_in_flight = VectorsAtOnce(plan.width);
  rows.loads_first = LoadsFirst(context.nest, at_once, plan.width);
  plan.kind = rows;
  return plan;
}

}  // namespace

absl::Status CanScheduleScanRows(const NestContext& context) {
  if (!HasScans(context.nest)) return Reject("it scans nothing");
  if (context.nest.shape != NestShape::kTiled) return Reject("it has no rows");
  if (HasColumnSums(context.nest)) return Reject("it reduces over rows");
  return absl::OkStatus();
}

CudaPlan ScheduleScanRows(const NestContext& context) {
  const Nest& nest = context.nest;
  // Lanes are neighbours, for prefixes follow their order.
  const RowVectors vectors = AlignedRowVectors(context);
  const int parts = Parts(context, vectors, context.Threads(kUsualThreads));
  if (parts > 1) return PartsOfRows(context, vectors, parts);
  RowPasses passes = PlanRowPasses(context, vectors);
  const bool in_registers = passes.group.register_vectors > 0;
  if (in_registers) NarrowGroups(context, vectors, &passes);
  if (!in_registers && BytesOfRowValues(context.program, nest) == 0) {
    // Nothing is kept, so that a block may have several rows, of which none is known to be long.
    std::tie(passes.threads, passes.group.threads) = ChooseRowThreads(context, vectors.Hint());
    passes.blocks = sym::CeilDiv(context.rows, Expr(passes.threads / passes.group.threads));
  }
  CudaPlan plan{.width = vectors.width, .threads = passes.threads, .blocks = passes.blocks};
  CudaScanRows rows{.group = passes.group, .loops = passes.loops};
  plan.kind = rows;
  PlanRowInside(nest, plan, &rows.group);
  const bool has_one_pass = ScansInOnePass(nest);
  if (!in_registers) rows.group.vectors_in_flight = has_one_pass ? VectorsAtOnce(plan.width) : 1;
  const int at_once = in_registers ? rows.group.register_vectors : rows.group.vectors_in_flight;
  rows.loads_first = has_one_pass && LoadsFirst(nest, at_once, plan.width);
  plan.kind = rows;
  return plan;
}

}  // namespace tensord::compiler
