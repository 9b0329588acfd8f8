// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/plan_nest.h"

#include "base/check.h"
#include "compiler/schedule/cuda/column_groups.h"
#include "compiler/schedule/cuda/columns.h"
#include "compiler/schedule/cuda/elements.h"
#include "compiler/schedule/cuda/rows.h"
#include "compiler/schedule/cuda/scan_rows.h"
#include "compiler/schedule/cuda/split.h"
#include "compiler/schedule/cuda/sweep.h"
#include "compiler/schedule/cuda/tiles.h"

namespace tensord::compiler {
std::span<const CudaScheduleKind> CudaScheduleKinds() {
  static constexpr CudaScheduleKind kKinds[] = {
      {"column-groups", CanScheduleColumnGroups, ScheduleColumnGroups},
      {"columns", CanScheduleColumns, ScheduleColumns},
      {"sweep", CanScheduleSweep, ScheduleSweep},
      {"split", CanScheduleSplit, ScheduleSplit},
      {"tiles", CanScheduleTiles, ScheduleTiles},
      {"elements", CanScheduleElements, ScheduleElements},
      {"rows", CanScheduleRows, ScheduleRows},
      {"scan-rows", CanScheduleScanRows, ScheduleScanRows},
  };
  return kKinds;
}

CudaPlan PlanCudaNest(const NestContext& context) {
  for (const CudaScheduleKind& kind : CudaScheduleKinds()) {
    if (kind.can_schedule(context).ok()) return kind.schedule(context);
  }
  TENSORD_CHECK(false, "no schedule takes the nest");
  return {};
}

}  // namespace tensord::compiler
