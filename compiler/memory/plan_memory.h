// Places computed buffers in the call's one workspace.
//
// Requires: a schedule.
// Ensures: every buffer that a step touches has a place; two buffers that live at the same time do
// not
//   overlap, but for a result in its operand's place (in_place.h); buffers that leave the call are
//   allocated on their own. Offsets are 64-aligned.
// Method: buffers in order of decreasing size, each at the lowest offset that is free during its
//   lifetime (greedy by size, Pisarchyk and Lee 2020). Sizes are compared by their hints; with
//   symbolic sizes every symbolic buffer has a place of its own behind the others.
#ifndef TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_
#define TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_

#include <vector>

#include "compiler/codegen/kernel.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

struct Place {
  enum Kind {
    kNone,  // never in memory
    kInput,
    kConstant,
    kWorkspace,  // at `offset`
    kOwned,      // allocated through torch
    kExtern,     // made by a library call
  } kind = kNone;
  Expr offset;  // bytes
};

struct MemoryPlan {
  std::vector<Place> places;  // per buffer
  Expr workspace_bytes;
  // Where CUDA launches have their scratch, all in one place: they run one after the other.
  Expr scratch_offset;
  // Extern and owned buffers that are not returned: the step after which nobody needs them.
  std::vector<int> last_use;  // per buffer; -1: never
};

// `kernels[i]` belongs to step i (empty for extern steps).
MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<KernelSource>& kernels);

// Ends the worker unless buffers that live at the same time lie apart; two may meet only in the
// step that ends one's life and begins the other's.
void VerifyMemory(const Program& program, const Schedule& schedule,
                  const std::vector<KernelSource>& kernels, const MemoryPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_
