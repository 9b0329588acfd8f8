// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <utility>

namespace tensord::runtime {
namespace {
std::string& Slot() {
  thread_local std::string message;
  return message;
}
}  // namespace

TensordError Fail(TensordError code, std::string message) {
  Slot() = std::move(message);
  return code;
}

void SetLastError(std::string message) { Slot() = std::move(message); }
const std::string& LastError() { return Slot(); }

}  // namespace tensord::runtime
