// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/row_inside.h"

#include <algorithm>
#include <map>

#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/nest_reductions.h"

namespace tensord::compiler {
namespace {

// Vectors of a row that is run through once, whose loads are under way at once.
constexpr int kVectorsInFlight = 4;

// Nothing is kept from vector to vector but the row's own sums: one pass, then statements of the
// row.
bool RunsOnce(const Nest& nest) {
  return std::all_of(nest.members.begin(), nest.members.end(), [](const NestMember& m) {
    return m.has_inner == (m.position == 1) && !(m.has_inner && m.reduces_outer);
  });
}

int VectorsInFlight(const Nest& nest, const RowGroup& group) {
  // Each lane of interleaved vectors is a load of its own. Partial ones are of wide memory.
  const bool in_loop = group.register_vectors == 0 && group.access != RowAccess::kPartial &&
                       group.access != RowAccess::kInterleaved;
  return nest.shape != NestShape::kFlat && in_loop && RunsOnce(nest) ? kVectorsInFlight : 0;
}

// Of the vectors that a thread has in registers.
int WholeVectors(const Nest& nest, const CudaPlan& plan, const RowGroup& group) {
  if (group.register_vectors == 0) return 0;
  // A thread beyond the last column has no rows; of the others, tails look for themselves.
  if (plan.column_tiles() != nullptr) {
    return group.access == RowAccess::kAligned ? group.register_vectors : 0;
  }
  // A load at any place touches the aligned words behind its vector.
  const int64_t beyond = plan.is_unaligned() ? plan.width - 1 : 0;
  const Expr reached = sym::Product(nest.inner) - Expr(beyond);
  const int64_t vectors = sym::FloorDiv(reached, Expr(plan.width)).AsConstant().value_or(0);
  return static_cast<int>(std::max<int64_t>(0, vectors) / group.threads);
}

std::vector<std::vector<int>> JointSums(const Nest& nest, const CudaPlan& plan) {
  std::vector<std::vector<int>> joint;
  if (!HasGroupsOfWarps(plan)) return joint;
  std::map<int, std::vector<int>> by_position;
  const std::vector<NestReduction> reductions = ReductionsOf(nest);
  for (size_t i = 0; i < reductions.size(); ++i) {
    std::vector<int>& sums = by_position[reductions[i].member->position];
    if (MayBeJoint(reductions[i]) && sums.size() < kMostJointSums) {
      sums.push_back(static_cast<int>(i));
    }
  }
  for (auto& [position, sums] : by_position) {
    if (sums.size() > 1) joint.push_back(std::move(sums));
  }
  return joint;
}

}  // namespace

bool HasGroupsOfWarps(const CudaPlan& plan) {
  return !plan.Is<CudaSplit>() && plan.G() > kWarp && plan.groups() > 1;
}

bool MayBeJoint(const NestReduction& reduction) {
  return !reduction.IsOverRows() && reduction.reduction->kind == ReduceKind::kSum &&
         ComputeType(reduction.dtype) == kFloat32;
}

void PlanRowInside(const Nest& nest, const CudaPlan& plan, RowGroup* group) {
  group->whole_vectors = WholeVectors(nest, plan, *group);
  group->vectors_in_flight = VectorsInFlight(nest, *group);
  group->joint_sums = JointSums(nest, plan);
}

}  // namespace tensord::compiler
