// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/columns.h"

namespace tensord::compiler {
namespace {

constexpr int kThreadsOfBlock = 128;

}  // namespace

absl::Status CanScheduleColumns(const NestContext& context) {
  const Nest& nest = context.nest;
  if (nest.shape != NestShape::kBlocked) return Reject("its columns do not run in blocks");
  if (nest.members[0].loops.reductions.empty()) return Reject("it reduces nothing");
  return absl::OkStatus();
}

CudaPlan ScheduleColumns(const NestContext& context) {
  CudaPlan plan{.width = context.widths.aligned,
                .threads = context.Threads(kThreadsOfBlock),
                .kind = CudaColumns{}};
  // The vector loop is the last inner one; the others run inside of a thread.
  const Expr vectors = context.nest.inner.empty()
                           ? Expr(1)
                           : sym::FloorDiv(context.nest.inner.back(), Expr(plan.width));
  plan.blocks = sym::CeilDiv(context.rows * vectors, Expr(plan.threads));
  return plan;
}

}  // namespace tensord::compiler
