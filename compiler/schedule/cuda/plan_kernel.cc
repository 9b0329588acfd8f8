// SPDX-License-Identifier: Apache-2.0
#include "compiler/schedule/cuda/plan_kernel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <set>

#include "base/cuda_architecture.h"
#include "compiler/schedule/access.h"
#include "compiler/schedule/cuda/plan_nest.h"
#include "compiler/schedule/cuda/prepare_nest.h"
#include "compiler/schedule/cuda/shared_functions.h"
#include "compiler/schedule/cuda/threads.h"
#include "compiler/schedule/cuda/widths.h"

namespace tensord::compiler {
namespace {

// Kernels that move more do not wait for those before them: with a wait ahead, the compiler knows
// no memory to be constant, and issues no load before a store that comes first in the text. Small
// ones gain more than they lose.
constexpr int64_t kMostBytesOfWaiting = 16 << 20;

// Whether 32-bit indices do not reach every element.
bool HasWideIndex(const Program& program, const Kernel& kernel) {
  const auto wide_buffer = [&](BufferId id) { return NeedsWideIndex(program.buffers[id]); };
  for (const Nest& nest : kernel.nests) {
    if (NeedsWideIndex(sym::Product(nest.outer) * sym::Product(nest.inner))) return true;
    for (const NestMember& member : nest.members) {
      for (const Inst& inst : member.loops.block.insts) {
        if (inst.kind == InstKind::kLoad && wide_buffer(inst.buffer)) return true;
      }
      for (const Store& store : member.loops.stores) {
        if (wide_buffer(store.buffer)) return true;
      }
    }
  }
  return false;
}

int64_t BytesOf(const Program& program, const Kernel& kernel) {
  std::set<BufferId> touched;
  for (const Nest& nest : kernel.nests) {
    for (const NestMember& member : nest.members) {
      const Accesses accesses = AccessesOf(member.loops);
      touched.insert(accesses.reads.begin(), accesses.reads.end());
      touched.insert(accesses.writes.begin(), accesses.writes.end());
    }
    for (BufferId id : nest.local) touched.erase(id);
  }
  int64_t bytes = 0;
  for (BufferId id : touched) bytes += BufferBytes(program.buffers[id]);
  return bytes;
}

}  // namespace

CudaKernelPlan PlanCudaKernel(const Program& program, const Kernel& kernel,
                              const v1::CudaTarget& target) {
  // Nests that share a launch share its block size.
  const int fixed_threads = kernel.nests.size() > 1 ? kUsualThreads : 0;
  CudaKernelPlan plan{.wide_index = HasWideIndex(program, kernel)};
  std::vector<std::string> keys;
  for (const Nest& nest : kernel.nests) {
    PlannedCudaNest planned{.nest = PrepareCudaNest(program, nest)};
    planned.plan = PlanCudaNest(NestContext(program, planned.nest, target, fixed_threads));
    plan.threads = std::max(plan.threads, planned.plan.threads);
    plan.resident = std::max(plan.resident, planned.plan.resident);
    const auto* sweep = planned.plan.As<CudaSweep>();
    if (sweep != nullptr && sweep->finish) plan.finish_threads = sweep->finish->threads;
    if (fixed_threads > 0) keys.push_back(FunctionKey(program, planned.nest, planned.plan));
    plan.nests.push_back(std::move(planned));
  }
  plan.shared_functions = FindSharedFunctions(keys);
  for (const std::vector<size_t>& nests : plan.shared_functions) {
    for (size_t i : nests) std::get<CudaElements>(plan.nests[i].plan.kind).serves_many = true;
  }
  plan.finish_waits = CanWaitForLaunches(target.sm());
  plan.waits = plan.finish_waits && BytesOf(program, kernel) <= kMostBytesOfWaiting;
  return plan;
}

std::string ToString(const CudaKernelPlan& plan) {
  std::string text;
  for (const PlannedCudaNest& nest : plan.nests) {
    const std::string details = DetailsOf(nest.plan);
    absl::StrAppend(&text, ToString(nest.nest), "  plan: ", ToString(nest.plan),
                    details.empty() ? "" : absl::StrCat(" (", details, ")"), "\n");
  }
  for (const std::vector<size_t>& nests : plan.shared_functions) {
    absl::StrAppend(&text, "  nests ", absl::StrJoin(nests, ", "), " share a function\n");
  }
  return text;
}

}  // namespace tensord::compiler
