// SPDX-License-Identifier: Apache-2.0
// The start of a call: what the inputs are, and where every buffer that exists already lies.
#ifndef TENSORD_RUNTIME_RUN_BIND_H_
#define TENSORD_RUNTIME_RUN_BIND_H_

#include <cstdint>

#include "runtime/base/error.h"
#include "runtime/call/tensors.h"

namespace tensord::runtime {

// Checks the inputs against the plan; fills the state's values, places and device index.
// TENSORD_INVALID names the input that does not fit.
TensordError BindInputs(CallState& state);

// Allocates the workspace and sets the addresses of inputs, constants and the workspace's buffers.
TensordError BindBuffers(CallState& state);

// The bytes that a buffer and its views take around the buffer's first element: [before, after),
// before <= 0. A view of an input may reach beyond the input's own elements, into its storage, as
// as_strided does.
struct Reach {
  int64_t before, after;
};
Reach ReachOfViews(const CallState& state, uint32_t root);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_RUN_BIND_H_
