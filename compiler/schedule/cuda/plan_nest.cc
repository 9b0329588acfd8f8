#include "compiler/schedule/cuda/plan_nest.h"

#include "base/check.h"
#include "compiler/schedule/cuda/columns.h"
#include "compiler/schedule/cuda/elements.h"
#include "compiler/schedule/cuda/rows.h"
#include "compiler/schedule/cuda/split.h"
#include "compiler/schedule/cuda/sweep.h"
#include "compiler/schedule/cuda/tiles.h"

namespace tensord::compiler {
namespace {

void Verify(const CudaPlan& plan) {
  TENSORD_CHECK(plan.threads % plan.G() == 0, "groups do not fill the block");
  const auto* sweep = plan.As<CudaSweep>();
  TENSORD_CHECK(sweep == nullptr || !sweep->prefetches || plan.register_vectors() > 0,
                "what is prefetched has no registers");
  TENSORD_CHECK(plan.column_tiles() == nullptr || !plan.combines_in_last_block(),
                "the last block would have many copies of its columns to combine");
}

}  // namespace

std::span<const CudaScheduleKind> CudaScheduleKinds() {
  static constexpr CudaScheduleKind kKinds[] = {
      {"columns", CanScheduleColumns, ScheduleColumns},
      {"sweep", CanScheduleSweep, ScheduleSweep},
      {"split", CanScheduleSplit, ScheduleSplit},
      {"tiles", CanScheduleTiles, ScheduleTiles},
      {"elements", CanScheduleElements, ScheduleElements},
      {"rows", CanScheduleRows, ScheduleRows},
  };
  return kKinds;
}

CudaPlan PlanCudaNest(const NestContext& context) {
  for (const CudaScheduleKind& kind : CudaScheduleKinds()) {
    if (!kind.can_schedule(context).ok()) continue;
    CudaPlan plan = kind.schedule(context);
    Verify(plan);
    return plan;
  }
  TENSORD_CHECK(false, "no schedule takes the nest");
  return {};
}

}  // namespace tensord::compiler
