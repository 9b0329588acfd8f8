// SPDX-License-Identifier: Apache-2.0
// Inputs whose address is not aligned as kernels need: they get aligned copies for the call.
#ifndef TENSORD_RUNTIME_RUN_ALIGN_H_
#define TENSORD_RUNTIME_RUN_ALIGN_H_

#include "runtime/base/error.h"
#include "runtime/call/tensors.h"

namespace tensord::runtime {

// Copies every misaligned input that a kernel takes, with all that its views reach, and has the
// buffer's address be the copy's. Calls have the input itself, by whose place in its memory some
// count (as_strided). Lists them in the state's `realigned`.
TensordError AlignInputs(CallState& state);

// Before the first step that writes an input, of this buffer: calls have the copy from then on.
void GiveCopy(CallState& state, uint32_t buffer);

// After the last step: copies back what was written, and frees the copies.
TensordError RestoreInputs(CallState& state);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_RUN_ALIGN_H_
