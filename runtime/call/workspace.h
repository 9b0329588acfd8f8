// SPDX-License-Identifier: Apache-2.0
// Memory that one call has beside its tensors: the workspace, and scratch for CPU kernels.
#ifndef TENSORD_RUNTIME_CALL_WORKSPACE_H_
#define TENSORD_RUNTIME_CALL_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/call/call_state.h"

namespace tensord::runtime {

// Gives the call a workspace of as many bytes as its program wants: one that was lent, one that the
// thread has kept, or a new one. TENSORD_OUT_OF_MEMORY where a device has none left.
TensordError AllocateWorkspace(CallState& state);
void DropWorkspace(CallState& state);
// As tensord_lend_workspace.
void LendWorkspace(Handle tensor, int64_t bytes);
// Gives back what products of the call took for themselves.
void FreeProductWorkspace(CallState& state);
// At least `bytes`, 64-aligned, not cleared; null when there is no memory.
void* GetScratch(CallState& state, size_t bytes);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CALL_WORKSPACE_H_
