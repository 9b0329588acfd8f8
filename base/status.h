// SPDX-License-Identifier: Apache-2.0
// Short forms for absl::Status: a caller's mistake, or something unsupported, with a message that
// says what to do.
#ifndef TENSORD_BASE_STATUS_H_
#define TENSORD_BASE_STATUS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <utility>

#define TENSORD_STATUS_CONCAT_INNER(a, b) a##b
#define TENSORD_STATUS_CONCAT(a, b) TENSORD_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function when `expression` is not ok.
#define TENSORD_RETURN_IF_ERROR(expression)                                 \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// Declares `target` from an absl::StatusOr or returns its status.
#define TENSORD_ASSIGN_OR_RETURN(target, expression) \
  TENSORD_ASSIGN_OR_RETURN_INNER(TENSORD_STATUS_CONCAT(status_or_, __LINE__), target, expression)
#define TENSORD_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return std::move(temporary).status();          \
  target = *std::move(temporary)

#endif  // TENSORD_BASE_STATUS_H_
