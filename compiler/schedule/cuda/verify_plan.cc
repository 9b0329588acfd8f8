// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/verify_plan.h"

#include <algorithm>
#include <set>
#include <span>

#include "compiler/schedule/cuda/combine.h"
#include "compiler/schedule/cuda/row_inside.h"
#include "compiler/schedule/cuda/scan_depths.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/traits.h"

namespace tensord::compiler {
namespace {

struct Rule {
  bool is_broken;
  const char* how;
};

absl::Status FirstBroken(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    if (rule.is_broken) return absl::InternalError(rule.how);
  }
  return absl::OkStatus();
}

absl::Status VerifyGroup(const CudaPlan& plan) {
  const auto* sweep = plan.As<CudaSweep>();
  const auto* rows = plan.As<CudaRows>();
  const auto* elements = plan.As<CudaElements>();
  const bool in_registers = plan.register_vectors() > 0, has_tiles = plan.column_tiles() != nullptr;
  const int whole = plan.group().whole_vectors;
  const Rule rules[] = {
      {plan.threads % plan.G() != 0, "groups do not fill the block"},
      {plan.Is<CudaSplit>() && plan.G() != plan.threads, "a split row is not all threads'"},
      {has_tiles && !in_registers, "tiles of columns have no registers"},
      {has_tiles && plan.combines_in_last_block(),
       "the last block would have many copies of its columns to combine"},
      {sweep != nullptr && sweep->prefetches && !in_registers,
       "what is prefetched has no registers"},
      {sweep != nullptr && plan.is_peeled(), "a sweep peels its rows"},
      {rows != nullptr && rows->loads_first && !in_registers,
       "what is loaded first has no registers"},
      {rows != nullptr && rows->column_tiles && !rows->loops,
       "tiles of columns do not go over rows"},
      {whole < 0 || whole > plan.register_vectors(), "more whole vectors than in registers"},
      {in_registers && plan.vectors_in_flight() > 0, "vectors in registers run in no loop"},
      {elements != nullptr && elements->vectors_in_flight > elements->vectors_per_thread,
       "more vectors in flight than a thread has"},
  };
  return FirstBroken(rules);
}

// Only some kinds know that vectors are to be worked on in their order.
absl::Status VerifyScans(const Nest& nest, const CudaPlan& plan) {
  const auto* rows = plan.As<CudaScanRows>();
  const auto* columns = plan.As<CudaColumns>();
  const bool knows_scans = rows != nullptr || columns != nullptr;
  const bool at_once = plan.register_vectors() > 0 || plan.vectors_in_flight() > 0;
  const int parts = plan.scanned_parts();
  const Rule rules[] = {
      {HasScans(nest) && !knows_scans, "a nest with scans has a schedule that knows none"},
      {rows != nullptr && !HasScans(nest), "a schedule of scans has a nest without one"},
      {rows != nullptr && plan.access() != RowAccess::kAligned,
       "lanes of a scan are no whole, aligned vectors"},
      {rows != nullptr && HasGroupsOfWarps(plan), "a block has several groups of warps that scan"},
      {rows != nullptr && rows->loops && plan.groups() > 1,
       "several rows of a block keep their values in one place"},
      {columns != nullptr && HasScans(nest) != (columns->rows_in_flight > 0),
       "columns have rows in flight that are no scan's, or a scan has none"},
      {rows != nullptr && !at_once, "a row's vectors are neither in registers nor in flight"},
      {parts < 1 || (parts > 1 && !MayScanInParts(nest)), "parts of what is not scanned in parts"},
      {rows != nullptr && parts > 1 &&
           (rows->loops || plan.groups() > 1 || plan.register_vectors() > 0),
       "a part of a row is not a block's that runs through it"},
      {columns != nullptr && parts > 1 && nest.inner.size() != 2,
       "parts of columns are of more loops than one"},
  };
  return FirstBroken(rules);
}

absl::Status VerifyJointSums(const std::vector<NestReduction>& reductions, const CudaPlan& plan) {
  const int count = static_cast<int>(reductions.size());
  std::set<int> seen;
  for (const std::vector<int>& sums : plan.group().joint_sums) {
    const bool fits = sums.size() > 1 && sums.size() <= kMostJointSums && HasGroupsOfWarps(plan);
    if (!fits) return absl::InternalError("joint sums find no room, or save nothing");
    for (const int number : sums) {
      if (number < 0 || number >= count || !seen.insert(number).second) {
        return absl::InternalError("a joint sum is no reduction, or in two places");
      }
      const NestReduction& sum = reductions[static_cast<size_t>(number)];
      const NestReduction& first = reductions[static_cast<size_t>(sums[0])];
      if (!MayBeJoint(sum) || sum.member->position != first.member->position) {
        return absl::InternalError("joint sums are not sums of floats of one pass");
      }
    }
  }
  return absl::OkStatus();
}

// How what a sweep accumulates is combined.
absl::Status VerifyCombining(const std::vector<NestReduction>& reductions, const CudaPlan& plan,
                             const CudaSweep& sweep) {
  const bool combines = plan.register_vectors() > 0 && plan.groups() > 1;
  bool has_columns = false;
  size_t combined = 0;
  for (size_t i = 0; i < reductions.size(); ++i) {
    if (!reductions[i].IsOverRows() || !reductions[i].IsOfColumns()) continue;
    has_columns = true;
    const auto it = sweep.combined_vectors.find(static_cast<int>(i));
    if ((it != sweep.combined_vectors.end()) != combines) {
      return absl::InternalError("groups do not combine their sums of columns, or without need");
    }
    if (!combines) continue;
    ++combined;
    const Rule rules[] = {
        {it->second < 1 || it->second > plan.register_vectors(),
         "groups combine other vectors than those in registers"},
        {it->second * BytesOfCombinedVector(plan, reductions[i]) > sweep.combine_bytes,
         "what groups combine finds no room in shared memory"},
    };
    TENSORD_RETURN_IF_ERROR(FirstBroken(rules));
  }
  const auto& finish = sweep.finish;
  const Rule rules[] = {
      {combined != sweep.combined_vectors.size(), "groups combine what is no sum of columns"},
      {finish.has_value() != has_columns,
       "a second launch without sums of columns, or these without it"},
      {finish && (finish->threads != kFinishThreads || finish->columns < 1 ||
                  finish->threads % finish->columns != 0),
       "the second launch's columns do not fill its blocks"},
  };
  return FirstBroken(rules);
}

// How threads and blocks share columns.
absl::Status VerifyColumnGroups(const Nest& nest, const std::vector<NestReduction>& reductions,
                                const CudaPlan& plan, const CudaColumnGroups& groups) {
  const Rule rules[] = {
      {nest.shape != NestShape::kBlocked || reductions.empty() || HasScans(nest),
       "groups of columns reduce none"},
      {groups.columns < 1 || plan.threads % groups.columns != 0,
       "groups of columns do not fill the block"},
      {groups.parts < 1 || groups.rows_in_flight < 1, "a part of columns without rows"},
      {groups.combine_bytes < BytesOfCombinedVectors(plan, reductions),
       "what threads combine finds no room in shared memory"},
  };
  return FirstBroken(rules);
}

}  // namespace

absl::Status VerifyCudaPlan(const Nest& nest, const CudaPlan& plan) {
  const bool is_empty = plan.width <= 0 || plan.threads <= 0 || plan.resident <= 0 || plan.G() <= 0;
  if (is_empty) return absl::InternalError("a plan without threads");
  TENSORD_RETURN_IF_ERROR(VerifyGroup(plan));
  TENSORD_RETURN_IF_ERROR(VerifyScans(nest, plan));
  const std::vector<NestReduction> reductions = ReductionsOf(nest);
  TENSORD_RETURN_IF_ERROR(VerifyJointSums(reductions, plan));
  if (const auto* groups = plan.As<CudaColumnGroups>()) {
    return VerifyColumnGroups(nest, reductions, plan, *groups);
  }
  const auto* sweep = plan.As<CudaSweep>();
  return sweep == nullptr ? absl::OkStatus() : VerifyCombining(reductions, plan, *sweep);
}

}  // namespace tensord::compiler
