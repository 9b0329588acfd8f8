// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/plan.h"

namespace {

uint64_t NextNumber() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

TensordProgram::TensordProgram() : number(NextNumber()) {}

TensordProgram::~TensordProgram() {
  device.reset();  // what it made of the constants goes before them
  for (tensord::runtime::Handle handle : constants) torch->delete_tensor(handle);
}
