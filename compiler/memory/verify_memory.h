// SPDX-License-Identifier: Apache-2.0
// The verifier of a memory plan.
//
// Checks that
//   - every place in the workspace is aligned and inside of it, or of its block;
//   - buffers and scratch that live at the same time do not overlap; two buffers may meet in the
//   step
//     that ends one's life and begins the other's, where they begin at one address;
//   - scratch has a place.
// Sizes and offsets are compared by their hints.
#ifndef TENSORD_COMPILER_MEMORY_VERIFY_MEMORY_H_
#define TENSORD_COMPILER_MEMORY_VERIFY_MEMORY_H_

#include <vector>

#include "base/status.h"
#include "compiler/memory/plan_memory.h"

namespace tensord::compiler {

// Internal, naming the buffers or the step. `launches[i]` belongs to step i (empty for extern
// steps).
absl::Status VerifyMemory(const Program& program, const Schedule& schedule,
                          const std::vector<LaunchInterface>& launches, const MemoryPlan& plan);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_VERIFY_MEMORY_H_
