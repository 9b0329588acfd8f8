// SPDX-License-Identifier: Apache-2.0
// Expresses the loops of several operations in one common set of loops.
#ifndef TENSORD_COMPILER_SCHEDULE_ALIGN_H_
#define TENSORD_COMPILER_SCHEDULE_ALIGN_H_

#include <vector>

#include "base/status.h"
#include "compiler/schedule/nest.h"

namespace tensord::compiler {

// Splits loops until all members agree and then merges what no member distinguishes. Sets outer,
// inner and members (positions are not yet assigned). Fails when the loops have no common
// refinement.
absl::Status AlignLoops(const Program& program, const std::vector<int>& ops,
                        const GroupShape& shape, const DeviceTraits& device, Nest* nest);

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_ALIGN_H_
