// SPDX-License-Identifier: Apache-2.0
// When memory of a call can go before the call ends.
#ifndef TENSORD_RUNTIME_LOAD_LIFETIMES_H_
#define TENSORD_RUNTIME_LOAD_LIFETIMES_H_

#include "runtime/program/plan.h"

namespace tensord::runtime {

// Adds the steps that end a life to a program whose steps and outputs are complete: kFree behind
// the last use of each standalone buffer, kRelease behind that of each input which
// the call can do without from then on. Such an input is no parameter, is neither written nor
// returned, and something is allocated after its last use; others would be released for nothing.
// Fills `released_inputs`.
void AddReleases(TensordProgram* program);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_LOAD_LIFETIMES_H_
