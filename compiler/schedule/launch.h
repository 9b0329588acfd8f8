// SPDX-License-Identifier: Apache-2.0
// What a launch passes to its kernel, and what it needs of the call's memory: all that is known of
// a kernel without its source.
#ifndef TENSORD_COMPILER_SCHEDULE_LAUNCH_H_
#define TENSORD_COMPILER_SCHEDULE_LAUNCH_H_

#include <vector>

#include "compiler/loop_ir/program.h"

namespace tensord::compiler {

struct LaunchInterface {
  std::vector<BufferId> buffers;  // in the order of the kernel's arguments
  std::vector<BufferId> written;  // those of them that it writes
  std::vector<Expr> integers;     // free of loop symbols
  Expr scratch_bytes;             // of each thread, in memory of its own; or of the launch
  // The scratch is of the launch, and lies in the call's workspace (CUDA).
  bool scratch_of_launch = false;
  Expr counters;  // of the launch (CUDA): 4 bytes each, zero before and after it
};

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_LAUNCH_H_
