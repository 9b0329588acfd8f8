// SPDX-License-Identifier: Apache-2.0
// Where what a command makes goes: a file, or standard output; and why it made nothing.
#ifndef TENSORD_SERVER_CTL_OUTPUT_H_
#define TENSORD_SERVER_CTL_OUTPUT_H_

#include <string>

#include "base/status.h"
#include "server/ctl/client.h"

namespace tensord::server {

// Of a key in hex, in lists.
inline constexpr size_t kShownDigits = 12;

// To standard output where `file` is empty. Prints what went wrong and returns the exit code.
int WriteText(const std::string& file, const std::string& text);

// Prints what a status says, and returns the exit code.
int Fail(const absl::Status& status, int code = kExitError);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_OUTPUT_H_
