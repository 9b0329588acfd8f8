// SPDX-License-Identifier: Apache-2.0
// Puts operations into fusion groups.
#ifndef TENSORD_COMPILER_SCHEDULE_FUSE_H_
#define TENSORD_COMPILER_SCHEDULE_FUSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/loop_ir/program.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Operations that share one nest, in program order; or one extern call.
struct Group {
  std::vector<int> ops;
  bool is_extern = false;
  Nest nest;  // of loop groups
};

// What fusion has cost, without a clock.
struct FusionWork {
  int64_t pairs = 0;   // of groups that were looked at
  int64_t visits = 0;  // of groups, to know whether one lies between two
};

// Two groups that share memory, and why they were not fused when that was tried last.
struct Rejection {
  int a, b;  // of FusionResult.groups
  std::string why;
};

struct FusionResult {
  std::vector<Group> groups;       // in an order that respects every dependence
  std::vector<std::string> notes;  // each attempt that failed, for people
  std::vector<Rejection> rejections;
  FusionWork work;
};

// Greedy: of all pairs of groups that share memory, the one that saves most bytes is fused first,
// until none is left that may be fused. Time is linear in the operations: a group holds few of them
// and tries few others. `predecessors`: of the program's operations.
FusionResult Fuse(const Program& program, const AccessIndex& accesses,
                  const std::vector<OperationSet>& predecessors, const DeviceTraits& device);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_FUSE_H_
