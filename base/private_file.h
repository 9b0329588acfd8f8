// SPDX-License-Identifier: Apache-2.0
// Files that hold a secret.
#ifndef TENSORD_BASE_PRIVATE_FILE_H_
#define TENSORD_BASE_PRIVATE_FILE_H_

#include <string>

#include "base/status.h"

namespace tensord {

// Service managers and Kubernetes hand secrets to a group; others have no business with them.
// NotFound: it cannot be looked at. FailedPrecondition: its group may write to it, or others read
// it.
absl::Status CheckPrivateFile(const std::string& path);

}  // namespace tensord

#endif  // TENSORD_BASE_PRIVATE_FILE_H_
