// SPDX-License-Identifier: Apache-2.0
#ifndef TENSORD_SERVER_FLEET_QUOTED_H_
#define TENSORD_SERVER_FLEET_QUOTED_H_

#include <absl/strings/escaping.h>
#include <absl/strings/string_view.h>

#include <string>

namespace tensord::fleet {

// Text from outside, safe between the quotes of one log line.
inline std::string Quoted(absl::string_view text) {
  constexpr size_t kLongest = 300;
  return absl::Utf8SafeCEscape(text.substr(0, kLongest));
}

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_QUOTED_H_
