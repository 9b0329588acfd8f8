// SPDX-License-Identifier: Apache-2.0
// Places computed buffers, and the scratch of CUDA launches, in the call's one workspace.
//
// Requires: a schedule.
// Ensures: every buffer that a step touches has a place; two buffers that live at the same time
//   do not overlap, but for a result in its operand's place (in_place.h); nor does scratch with a
//   buffer that lives during its step; buffers that leave the call are allocated on their own.
//   Offsets are 64-aligned.
// Method: buffers in order of decreasing size, each at the lowest offset that is free during its
//   lifetime (greedy by size, Pisarchyk and Lee 2020), then scratch in the same way; the same in
//   order of decreasing size times length of life; whichever needs less stays. Sizes are compared
//   by their hints. What has a symbolic size lies behind the rest, in slots that buffers of one
//   size, and scratch that surely fits, share (region.h).
#ifndef TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_
#define TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_

#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/schedule/launch.h"
#include "compiler/schedule/schedule.h"
#include "tensord/v1/artifact.pb.h"
#include "tensord/v1/compile.pb.h"

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
  Expr offset;     // bytes
  int block = -1;  // in the workspace: the block that `offset` counts in; -1: the whole call's
};

// The workspace of a segment of the call, or a large buffer's own (segments.h), or an input's
// memory.
struct MemoryBlock {
  static constexpr int kNoDonor = -1;

  int64_t bytes = 0;
  Expr offset;  // where it lies if there is one allocation for all
  // The input whose memory it is where nobody else has that. What lies in it takes the input's
  // place in the step that reads it last.
  int donor = kNoDonor;
};

struct MemoryPlan {
  std::vector<Place> places;  // per buffer
  Expr workspace_bytes;
  std::vector<MemoryBlock> blocks;
  Expr blocks_bytes;  // that they take, one allocation for all; they lie behind the workspace
  std::vector<Place> scratch;  // per step: of CUDA launches that have some, in the workspace
  Expr counters_offset,
      counters_bytes;  // of all CUDA launches, one after the other, in the workspace
  // Where there may be segments and the workspace is of constant size, else 0: the most that is
  // there at a time, parameters apart: the workspace, blocks, results, what the library allocated,
  // also for itself as far as that is known, arguments until they may be released.
  int64_t peak_bytes = 0;
  // There, by step: what a library may take for itself beside all that before the peak rises.
  std::vector<int64_t> spare_bytes;
  // Extern and owned buffers that are not returned: the step after which nobody needs them.
  std::vector<int> last_use;  // per buffer; -1: never
};

struct MemoryRules {
  bool segments = false;           // parts of the call may have workspaces of their own
  std::vector<bool> is_parameter;  // by input: it exists whether the call needs it or not
  bool releases_inputs = false;    // see CompileOptions
  std::vector<bool> is_donated;    // by input: see Input of graph.proto

  bool IsParameter(const BufferInfo& input) const { return Has(is_parameter, input); }
  bool IsDonated(const BufferInfo& input) const { return Has(is_donated, input); }

 private:
  static bool Has(const std::vector<bool>& flags, const BufferInfo& input) {
    const auto number = static_cast<size_t>(input.number);
    return number < flags.size() && flags[number];
  }
};
MemoryRules RulesOf(const v1::Target& target, const v1::CompileOptions& options,
                    const Graph& graph);

// `launches[i]` belongs to step i (empty for extern steps).
MemoryPlan PlanMemory(const Program& program, const Schedule& schedule,
                      const std::vector<LaunchInterface>& launches, const MemoryRules& rules);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_PLAN_MEMORY_H_
