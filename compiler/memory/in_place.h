// SPDX-License-Identifier: Apache-2.0
// Which results of a kernel, or of a call that says so (ExternOp::overwrites), may take the memory
// of an operand that dies in it.
//
// Requires: a schedule.
// Ensures: for each pair (result, operand): the operand is a computed buffer, or an input that is
//   donated, and last used by the step that first writes the result; both have one layout; and
//   every element of the operand is read only where the same element of the result is written, not
//   later. No operand serves two results.
#ifndef TENSORD_COMPILER_MEMORY_IN_PLACE_H_
#define TENSORD_COMPILER_MEMORY_IN_PLACE_H_

#include <map>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/schedule/schedule.h"

namespace tensord::compiler {

// `may_share[b]`: the buffer is placed in the workspace. `donated[b]`: it is an input that the call
// may overwrite. The result maps results to operands.
std::map<BufferId, BufferId> FindInPlace(const Program& program, const Schedule& schedule,
                                         const std::vector<Lifetime>& lifetimes,
                                         const std::vector<bool>& may_share,
                                         const std::vector<bool>& donated);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_MEMORY_IN_PLACE_H_
