// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/split.h"

#include <algorithm>

#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

constexpr int64_t kMostParts = 1024;

// One pass of reductions, then at most statements about the row.
bool HasOnePass(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return m.has_inner ? m.position == 1 : m.position > 1;
  });
}

}  // namespace

absl::Status CanScheduleSplit(const NestContext& context) {
  if (IsPointwise(context.nest)) return Reject("it has no parts to combine");
  if (HasColumnSums(context.nest)) return Reject("it reduces over rows");
  if (HasScans(context.nest)) return Reject("it scans rows, of which each block would need all");
  if (!HasOnePass(context.nest)) return Reject("a later pass needs the whole row");
  if (!context.HasFewLongRows()) return Reject("its rows are short, or enough for the machine");
  return absl::OkStatus();
}

CudaPlan ScheduleSplit(const NestContext& context) {
  CudaPlan plan{.width = context.widths.aligned, .threads = context.Threads(kUsualThreads)};
  const int64_t vectors = std::max<int64_t>(1, sym::Hint(context.aligned_vectors));
  const int64_t rows = std::max<int64_t>(1, sym::Hint(context.rows));
  const int64_t useful = vectors / (int64_t{kLeastVectorsOfPart} * plan.threads);
  const int64_t wanted = sym::CeilDiv(context.SweepBlocks(plan.threads), rows);
  const auto parts = static_cast<int>(std::clamp<int64_t>(std::min(useful, wanted), 1, kMostParts));
  plan.blocks = context.rows * parts;
  plan.kind = CudaSplit{.group = {.threads = plan.threads}, .parts = parts};
  PlanRowInside(context.nest, plan, &std::get<CudaSplit>(plan.kind).group);
  return plan;
}

}  // namespace tensord::compiler
