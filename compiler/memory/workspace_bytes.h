// SPDX-License-Identifier: Apache-2.0
// What takes room in the workspace, and how much: what the planner places and its verifier checks.
#ifndef TENSORD_COMPILER_MEMORY_WORKSPACE_BYTES_H_
#define TENSORD_COMPILER_MEMORY_WORKSPACE_BYTES_H_

#include <cstdint>
#include <vector>

#include "compiler/loop_ir/program.h"
#include "compiler/schedule/launch.h"

namespace tensord::compiler {

// In bytes, of every place in the workspace.
inline constexpr int64_t kMemoryAlignment = 64;

// Up to whole units of the alignment.
Expr AlignedBytes(const BufferInfo& buffer);

// The scratch of a step's launches: a CUDA kernel's functions run one after the other and share it.
struct Scratch {
  int step;
  Expr bytes;  // aligned
};

// The largest comes first.
std::vector<Scratch> ScratchOf(const std::vector<LaunchInterface>& launches);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_WORKSPACE_BYTES_H_
