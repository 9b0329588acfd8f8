// SPDX-License-Identifier: Apache-2.0
// How lines of the log show what came from outside.
#ifndef TENSORD_SERVER_LOG_QUOTED_H_
#define TENSORD_SERVER_LOG_QUOTED_H_

#include <absl/strings/escaping.h>
#include <absl/strings/string_view.h>

#include <string>

namespace tensord {

// Safe between the quotes of one line; its first 1,000 bytes.
inline std::string Quoted(absl::string_view text) {
  constexpr size_t kLongest = 1000;
  return absl::Utf8SafeCEscape(text.substr(0, kLongest));
}

}  // namespace tensord

#endif  // TENSORD_SERVER_LOG_QUOTED_H_
