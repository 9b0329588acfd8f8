// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/elements.h"

#include "compiler/schedule/cuda/pointwise.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

// Vectors for which a thread computes scalars that are expensive.
constexpr int kVectorsOfExpensiveScalars = 4;
// Those whose loads are under way at once.
constexpr int kVectorsInFlight = 2;

}  // namespace

absl::Status CanScheduleElements(const NestContext& context) { return MayIgnoreRows(context); }

CudaPlan ScheduleElements(const NestContext& context) {
  CudaElements elements;
  // An optimizer's powers of its step, say, are worth several vectors.
  if (HasExpensiveScalars(context.nest)) {
    elements.vectors_per_thread = kVectorsOfExpensiveScalars;
    elements.vectors_in_flight = kVectorsInFlight;
  }
  CudaPlan plan{.width = context.widths.aligned, .threads = context.Threads(kUsualThreads)};
  plan.blocks = sym::CeilDiv(context.rows * context.aligned_vectors,
                             Expr(plan.threads * elements.vectors_per_thread));
  plan.kind = elements;
  return plan;
}

}  // namespace tensord::compiler
