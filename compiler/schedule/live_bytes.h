// SPDX-License-Identifier: Apache-2.0
// How much memory the buffers of a program take while each of its groups runs.
#ifndef TENSORD_COMPILER_SCHEDULE_LIVE_BYTES_H_
#define TENSORD_COMPILER_SCHEDULE_LIVE_BYTES_H_

#include <cstdint>
#include <vector>

#include "compiler/schedule/access.h"
#include "compiler/schedule/fuse.h"

namespace tensord::compiler {

// Whether a buffer's memory goes when the call needs it no more: it is computed for other
// operations alone, or an input of `released` (by input's number) that nobody writes.
bool IsReleased(const Program& program, const AccessIndex& accesses,
                const std::vector<bool>& released, BufferId id);

// Per group, in bytes, when they run one after the other: of what is computed for other groups or
// leaves the call, and of inputs that are released, with sizes at their hints. Of a loop group's
// results as much as its operands free is taken to lie in their place; a call's results lie beside
// its operands, and what its library is known to allocate for itself. Packing may need more.
std::vector<int64_t> LiveBytes(const Program& program, const AccessIndex& accesses,
                               const std::vector<Group>& groups,
                               const std::vector<bool>& released = {});

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_LIVE_BYTES_H_
