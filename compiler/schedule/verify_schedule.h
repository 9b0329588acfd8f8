// SPDX-License-Identifier: Apache-2.0
// The schedule's verifier.
//
// Checks that
//   - every operation is in exactly one nest, or is the call of exactly one step;
//   - an operation runs behind those that write what it reads, and behind those that read what it
//     writes: in a later step, or later in its own nest;
//   - local buffers are written, and touched in their nest alone; no output is local.
// Which of two writers of one buffer comes first is not checked: parts of one buffer may be written
// in any order.
#ifndef TENSORD_COMPILER_SCHEDULE_VERIFY_SCHEDULE_H_
#define TENSORD_COMPILER_SCHEDULE_VERIFY_SCHEDULE_H_

#include "base/status.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

// Internal, naming the operation or the buffer.
absl::Status VerifySchedule(const Program& program, const Schedule& schedule);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_VERIFY_SCHEDULE_H_
