// SPDX-License-Identifier: Apache-2.0
// Why a nest cannot have a form.
#ifndef TENSORD_COMPILER_SCHEDULE_REJECT_H_
#define TENSORD_COMPILER_SCHEDULE_REJECT_H_

#include <string_view>

#include "base/status.h"

namespace tensord::compiler {

// FailedPrecondition: operations that cannot share a nest, or a nest that a kind of schedule is not
// for. The message completes "because": it reaches `tensorctl explain`.
inline absl::Status Reject(std::string_view why) {
  return absl::FailedPreconditionError(absl::string_view(why.data(), why.size()));
}

}  // namespace tensord::compiler

#endif  // TENSORD_COMPILER_SCHEDULE_REJECT_H_
