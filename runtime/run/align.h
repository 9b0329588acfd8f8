// SPDX-License-Identifier: Apache-2.0
// Inputs whose address is not aligned as kernels need: they get aligned copies for the call.
#ifndef TENSORD_RUNTIME_RUN_ALIGN_H_
#define TENSORD_RUNTIME_RUN_ALIGN_H_

#include "runtime/base/error.h"
#include "runtime/call/tensors.h"

namespace tensord::runtime {

// Copies every misaligned input that a kernel takes, with all that its views reach, and has the
// buffer's address and tensor be the copy's. Lists them in the state's `realigned`.
TensordError AlignInputs(CallState& state);

// After the last step: copies back what was written, and has the buffers be the inputs again.
TensordError RestoreInputs(CallState& state);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_RUN_ALIGN_H_
