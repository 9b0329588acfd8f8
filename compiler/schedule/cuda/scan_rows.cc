// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/scan_rows.h"

#include <algorithm>
#include <tuple>

#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/row_passes.h"
#include "compiler/schedule/cuda/row_vectors.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Elements that a thread loads, of all operands together, before it scans the first: a scan is a
// chain of exchanges between threads, during which nothing else would be under way.
constexpr int kMostElementsLoadedFirst = 48;
// Of a row that is too long for registers, those of one operand, in at most so many vectors.
constexpr int kElementsAtOnce = 16;
constexpr int kMostVectorsAtOnce = 8;

bool HasOnePass(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(),
                     [](const NestMember& m) { return m.position == 1; });
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
  RowPasses passes = PlanRowPasses(context, vectors);
  const bool in_registers = passes.group.register_vectors > 0;
  if (!in_registers && BytesOfRowValues(context.program, nest) == 0) {
    // Nothing is kept, so that a block may have several rows, of which none is known to be long.
    std::tie(passes.threads, passes.group.threads) = ChooseRowThreads(context, vectors.Hint());
    passes.blocks = sym::CeilDiv(context.rows, Expr(passes.threads / passes.group.threads));
  }
  CudaPlan plan{.width = vectors.width, .threads = passes.threads, .blocks = passes.blocks};
  CudaScanRows rows{.group = passes.group, .loops = passes.loops};
  plan.kind = rows;
  PlanRowInside(nest, plan, &rows.group);
  const bool has_one_pass = HasOnePass(nest);
  if (!in_registers) {
    rows.group.vectors_in_flight =
        has_one_pass ? std::clamp(kElementsAtOnce / plan.width, 1, kMostVectorsAtOnce) : 1;
  }
  const int at_once = in_registers ? rows.group.register_vectors : rows.group.vectors_in_flight;
  rows.loads_first = has_one_pass && at_once > 1 &&
                     at_once * plan.width * VectorOperands(nest) <= kMostElementsLoadedFirst;
  plan.kind = rows;
  return plan;
}

}  // namespace tensord::compiler
