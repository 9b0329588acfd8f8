// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cpu/plan_nest.h"

#include <algorithm>

#include "compiler/schedule/cpu/accumulators.h"
#include "compiler/schedule/cpu/chains.h"
#include "compiler/schedule/cpu/column_blocks.h"
#include "compiler/schedule/cpu/flat.h"
#include "compiler/schedule/cpu/stack_rows.h"
#include "compiler/schedule/cpu/transposed_rows.h"

namespace tensord::compiler {
namespace {

// Elementary operations that a load counts for, and how many operations of a vector count as one.
constexpr int64_t kOperationsOfLoad = 2;
constexpr int64_t kOperationsPerUnit = 4;
// Times that a scan combines the lanes of a vector.
constexpr int64_t kStepsOfScan = 5;

// Elementary operations of one element of the inner loops, roughly.
int64_t CostOfElement(const Nest& nest) {
  int64_t cost = 0;
  for (const NestMember& member : nest.members) {
    if (!member.has_inner) continue;
    int64_t of_member = 1;
    for (const Inst& inst : member.loops.block.insts) {
      if (inst.kind == InstKind::kCompute) of_member += InfoOf(inst.op).cost;
      if (inst.kind == InstKind::kScan) of_member += InfoOf(inst.op).cost * kStepsOfScan;
      if (inst.kind == InstKind::kLoad) of_member += kOperationsOfLoad;
    }
    cost += std::max<int64_t>(1, of_member / kOperationsPerUnit);
  }
  return std::max<int64_t>(cost, 1);
}

// The length of the vector loop is no multiple of a vector's, or not known. A flat nest's is an
// argument, so that the source does not depend on it.
bool HasTail(const Nest& nest, int lanes) {
  if (nest.inner.empty() || lanes == 1) return false;
  const auto extent = nest.inner.back().AsConstant();
  return nest.shape == NestShape::kFlat || !extent || *extent % lanes != 0;
}

}  // namespace

CpuPlan PlanCpuNest(const Program& program, const Nest& nest, int lanes) {
  CpuPlan plan{.lanes = lanes,
               .has_tail = HasTail(nest, lanes),
               .kind = CpuRows{},
               .cost = CostOfElement(nest)};
  int64_t extent = nest.inner.empty() ? 1 : sym::Hint(nest.inner.back());
  if (CanScheduleFlat(nest).ok()) {
    const CpuFlat flat = ScheduleFlat();
    plan.kind = flat;
    extent = flat.chunk;
  } else {
    if (CanScheduleColumnBlocks(nest).ok()) {
      plan.kind = ScheduleColumnBlocks();
    } else if (CanScheduleTransposedRows(nest, lanes).ok()) {
      plan.kind = CpuTransposedRows{};
    }
    plan.cost *= std::max<int64_t>(1, sym::Hint(sym::Product(nest.inner)));
  }
  plan.accumulator_copies = CountAccumulatorCopies(nest, lanes, extent);
  plan.chains = CutChains(nest, plan);
  plan.stack_rows = FindStackRows(program, nest);
  return plan;
}

}  // namespace tensord::compiler
