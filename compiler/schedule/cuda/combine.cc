// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/combine.h"

#include <algorithm>

#include "compiler/schedule/cuda/register_resident.h"
#include "compiler/schedule/cuda/threads.h"

namespace tensord::compiler {
namespace {

// Shared memory through which groups combine their columns, unless one vector of each thread needs
// more: it saves barriers.
constexpr int64_t kCombineBytes = 16 << 10;
// Columns of a block of the second launch: their loads fill a sector of the cache, and the block's
// other threads take other copies.
constexpr int kFinishColumns = 8;
constexpr int kCopiesInFlight = 8;

}  // namespace

bool HasColumnAccumulators(const Nest& nest) {
  return std::any_of(nest.members.begin(), nest.members.end(), IsColumnSum);
}

std::optional<FinishLaunch> FinishOf(const Nest& nest) {
  if (!HasColumnAccumulators(nest)) return std::nullopt;
  return FinishLaunch{
      .threads = kFinishThreads, .columns = kFinishColumns, .copies_in_flight = kCopiesInFlight};
}

int64_t BytesOfCombinedVector(const CudaPlan& plan, const NestReduction& reduction) {
  return plan.threads / 2 * plan.width * StateBytes(reduction);
}

int64_t BytesOfCombinedVectors(const CudaPlan& plan, const std::vector<NestReduction>& reductions) {
  int64_t bytes = 0;
  for (const NestReduction& reduction : reductions) {
    bytes = std::max(bytes, BytesOfCombinedVector(plan, reduction));
  }
  return bytes;
}

void PlanCombining(const Nest& nest, const CudaPlan& plan, CudaSweep* sweep) {
  if (plan.register_vectors() == 0 || plan.groups() == 1) return;
  const std::vector<NestReduction> reductions = ReductionsOf(nest);
  for (size_t i = 0; i < reductions.size(); ++i) {
    if (!reductions[i].IsOverRows() || !reductions[i].IsOfColumns()) continue;
    const int64_t bytes = BytesOfCombinedVector(plan, reductions[i]);
    const auto vectors =
        static_cast<int>(std::clamp<int64_t>(kCombineBytes / bytes, 1, plan.register_vectors()));
    sweep->combined_vectors[static_cast<int>(i)] = vectors;
    sweep->combine_bytes = std::max(sweep->combine_bytes, static_cast<int>(vectors * bytes));
  }
}

}  // namespace tensord::compiler
