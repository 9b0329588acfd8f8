// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <utility>

namespace tensord::runtime {
namespace {
std::string& ErrorText() {
  thread_local std::string message;
  return message;
}
}  // namespace

TensordError Fail(TensordError code, std::string message) {
  ErrorText() = std::move(message);
  return code;
}

void SetLastError(std::string message) { ErrorText() = std::move(message); }
const std::string& LastError() { return ErrorText(); }

}  // namespace tensord::runtime
