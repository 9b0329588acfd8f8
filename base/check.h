// SPDX-License-Identifier: Apache-2.0
// Broken invariants end the process (a worker, never the daemon or a job); what a caller did wrong
// is an absl::Status instead.
#ifndef TENSORD_BASE_CHECK_H_
#define TENSORD_BASE_CHECK_H_

#include <string>

namespace tensord {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace tensord

#define TENSORD_CHECK(condition, ...)                                                   \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::tensord::CheckFailed(__FILE__, __LINE__, #condition, std::string(__VA_ARGS__)); \
  } while (false)

#endif  // TENSORD_BASE_CHECK_H_
