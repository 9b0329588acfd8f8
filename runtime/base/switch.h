// SPDX-License-Identifier: Apache-2.0
// What a user may switch off by an environment variable.
#ifndef TENSORD_RUNTIME_BASE_SWITCH_H_
#define TENSORD_RUNTIME_BASE_SWITCH_H_

#include <cstdlib>
#include <string_view>

namespace tensord::runtime {

// True unless the variable is 0.
inline bool IsSwitchedOn(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_BASE_SWITCH_H_
