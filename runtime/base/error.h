// SPDX-License-Identifier: Apache-2.0
// Failure in the runtime: a code, and a message that the thread keeps (tensord_last_error). No
// exceptions: a run must stay cheap when nothing goes wrong.
#ifndef TENSORD_RUNTIME_BASE_ERROR_H_
#define TENSORD_RUNTIME_BASE_ERROR_H_

#include <string>

#include "tensord/runtime.h"

namespace tensord::runtime {

// Stores `message` for this thread and returns `code`.
[[nodiscard]] TensordError Fail(TensordError code, std::string message);
void SetLastError(std::string message);
const std::string& LastError();

}  // namespace tensord::runtime

// Returns from the enclosing function with the code of `expression` when it failed.
#define TENSORD_TRY(expression)                                              \
  do {                                                                       \
    if (TensordError code_ = (expression); code_ != TENSORD_OK) [[unlikely]] \
      return code_;                                                          \
  } while (false)

#endif  // TENSORD_RUNTIME_BASE_ERROR_H_
