// SPDX-License-Identifier: Apache-2.0
#include "runtime/call/workspace.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/call/tensors.h"
#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

constexpr int32_t kByte = 0;  // torch's ScalarType of uint8

struct Lent {
  Handle tensor = nullptr;
  int64_t bytes = 0;
};
thread_local Lent lent;

// The lent one, as the call's own reference, with room for the blocks too where it has that; false
// where there is none or it is too small. One call takes it: another within that call must not
// write over it.
bool TakeLentWorkspace(CallState& state, int64_t bytes, int64_t standalone) {
  const Lent taken = std::exchange(lent, {});
  if (taken.tensor == nullptr || taken.bytes < bytes) return false;
  if (state.torch->new_tensor_handle(taken.tensor, &state.workspace_tensor) != 0) {
    state.workspace_tensor = nullptr;
    return false;
  }
  state.has_standalone_room = standalone > 0 && taken.bytes - bytes >= standalone;
  state.workspace_size = bytes + (state.has_standalone_room ? standalone : 0);
  return true;
}

}  // namespace

void DropWorkspace(CallState& state) {
  if (state.workspace_tensor != nullptr) state.torch->delete_tensor(state.workspace_tensor);
  state.workspace_tensor = nullptr;
  state.workspace_size = 0;
}

TensordError AllocateWorkspace(CallState& state) {
  const int64_t bytes = state.values[state.program->workspace_bytes];
  const int64_t standalone = state.values[state.program->standalone_bytes];
  const int32_t device = state.program->device_type;
  state.has_standalone_room = false;
  // A kept one is of a CPU program.
  if (device != kTorchCpu || state.workspace_tensor == nullptr || state.workspace_size < bytes) {
    DropWorkspace(state);
  }
  bool has_one = state.workspace_tensor != nullptr;
  if (!has_one && device != kTorchCpu) has_one = TakeLentWorkspace(state, bytes, standalone);
  if (!has_one) {
    // torch's allocator for the device aligns enough, and rounds up what is a byte too long.
    const int64_t padding = device == kTorchCpu ? kWorkspaceAlignment : 0, stride = 1;
    int64_t padded = 0;
    if (__builtin_add_overflow(bytes, padding, &padded)) {
      return Fail(TENSORD_CORRUPT, "the workspace is too large");
    }
    if (AllocateTensor(state, 1, &padded, &stride, kByte, device, &state.workspace_tensor) !=
        TENSORD_OK) {
      return AllocationFailed(state, device,
                              "cannot allocate a workspace of " + std::to_string(bytes) + " bytes");
    }
    state.workspace_size = bytes;
  }
  void* data = nullptr;
  if (state.torch->get_data_ptr(state.workspace_tensor, &data) != 0) {
    return TorchFailed(*state.torch, "cannot reach the workspace");
  }
  const auto address = reinterpret_cast<uintptr_t>(data);
  state.workspace_shift = static_cast<int64_t>(-address & (kWorkspaceAlignment - 1));
  if (device != kTorchCpu && state.workspace_shift != 0) {
    return Fail(TENSORD_UNAVAILABLE, "torch's allocator gives memory that is not 64-byte aligned");
  }
  state.workspace = static_cast<char*>(data) + state.workspace_shift;
  return TENSORD_OK;
}

void LendWorkspace(Handle tensor, int64_t bytes) { lent = {tensor, bytes}; }

void FreeProductWorkspace(CallState& state) {
  if (state.product_workspace == nullptr) return;
  state.torch->delete_tensor(std::exchange(state.product_workspace, nullptr));
}

void* GetScratch(CallState& state, size_t bytes) {
  if (state.scratch_size < bytes) {
    std::free(state.scratch);
    state.scratch_size =
        (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    state.scratch = std::aligned_alloc(kWorkspaceAlignment, state.scratch_size);
    if (state.scratch == nullptr) state.scratch_size = 0;
  }
  return state.scratch;
}

}  // namespace tensord::runtime
