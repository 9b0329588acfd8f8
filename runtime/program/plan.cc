// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/plan.h"

TensordProgram::~TensordProgram() {
  device.reset();  // what it made of the constants goes before them
  for (tensord::runtime::Handle handle : constants) torch->delete_tensor(handle);
}
