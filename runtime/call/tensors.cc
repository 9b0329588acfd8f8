// SPDX-License-Identifier: Apache-2.0
#include "runtime/call/tensors.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

std::atomic<TensordEmptyFn> cuda_empty{nullptr};

const int64_t* Sizes(const CallState& state, const Layout& layout) {
  return state.values + layout.sizes;
}
const int64_t* Strides(const CallState& state, const Layout& layout) {
  return state.values + layout.strides;
}

TensordError CheckResult(CallState& state, uint32_t buffer, Handle result, const std::string& node,
                         bool* same_strides) {
  const Torch& torch = *state.torch;
  const BufferPlan& plan = state.program->buffers[buffer];
  const Layout& layout = plan.layout;
  int32_t dtype = 0, device = 0;
  int64_t ndim = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  if (torch.get_dtype(result, &dtype) != 0 || torch.get_dim(result, &ndim) != 0 ||
      torch.get_device_type(result, &device) != 0 || torch.get_sizes(result, &sizes) != 0 ||
      torch.get_strides(result, &strides) != 0) {
    return TorchFailed(torch, "node '" + node + "': its result cannot be read");
  }
  bool same = dtype == layout.dtype && ndim == layout.ndim &&
              (device == layout.device || MayBeElsewhere(layout, sizes, plan.in_launch));
  for (int32_t i = 0; same && i < layout.ndim; ++i) same = sizes[i] == Sizes(state, layout)[i];
  if (!same) {
    return Fail(TENSORD_OPERATOR, "node '" + node + "' gave " +
                                      DescribeLayout(dtype, ndim, sizes, strides) + " on " +
                                      DeviceName(device) + " where " +
                                      DescribeLayout(layout.dtype, layout.ndim,
                                                     Sizes(state, layout), Strides(state, layout)) +
                                      " on " + DeviceName(layout.device) + " was compiled");
  }
  *same_strides =
      SameLayout(layout.ndim, sizes, strides, Sizes(state, layout), Strides(state, layout));
  return TENSORD_OK;
}

TensordError Adopt(CallState& state, uint32_t buffer, Handle result) {
  void* data = nullptr;
  state.handles[buffer] = result;
  if (state.torch->get_data_ptr(result, &data) != 0) {
    return TorchFailed(*state.torch, "cannot reach a result's data");
  }
  SetAddress(state, buffer, static_cast<char*>(data));
  return TENSORD_OK;
}

// Over the memory of the donor, where the caller gave that away, it lies as it was captured, and
// kernels can write there; else nothing happens.
TensordError TakeDonor(CallState& state, uint32_t buffer, bool* taken) {
  const BufferPlan& plan = state.program->buffers[buffer];
  const TensordValue& input = state.inputs[plan.donor];
  const Torch& torch = *state.torch;
  int64_t offset = 0, size = 0, wanted = 0;  // the block's own size is rounded up
  void* memory = nullptr;
  for (uint32_t view : plan.views) {
    wanted = std::max(wanted, state.places[view].offset_bytes + state.places[view].extent_bytes);
  }
  const uintptr_t misaligned = state.program->input_alignment - 1;
  *taken = input.size == TENSORD_DONATED && input.tensor != nullptr &&
           torch.get_storage_offset(input.tensor, &offset) == 0 && offset == 0 &&
           torch.get_storage_size(input.tensor, &size) == 0 && size >= wanted &&
           torch.get_data_ptr(input.tensor, &memory) == 0 &&
           (reinterpret_cast<uintptr_t>(memory) & misaligned) == 0;
  if (!*taken) return TENSORD_OK;
  Handle tensor = nullptr;
  if (torch.alloc_from_pool(input.tensor, 0, plan.layout.dtype, plan.layout.ndim,
                            Sizes(state, plan.layout), Strides(state, plan.layout), &tensor) != 0) {
    return TorchFailed(torch, "cannot make a tensor in an input's memory");
  }
  return Adopt(state, buffer, tensor);
}

TensordError CopyResult(CallState& state, uint32_t buffer, Handle result) {
  Handle target = nullptr;
  TENSORD_TRY(GetTensor(state, buffer, &target));
  void *from = nullptr, *to = nullptr;
  // An operator that writes in place returns its argument.
  if (state.torch->get_data_ptr(result, &from) == 0 &&
      state.torch->get_data_ptr(target, &to) == 0 && from == to) {
    return TENSORD_OK;
  }
  if (state.torch->copy(target, result, 0) != 0) {
    return TorchFailed(*state.torch, "cannot copy a result");
  }
  return TENSORD_OK;
}

}  // namespace

void SetCudaEmpty(TensordEmptyFn fn) { cuda_empty.store(fn, std::memory_order_relaxed); }

TensordError AllocationFailed(const CallState& state, int32_t device, const std::string& what) {
  if (device == kTorchCpu || !TorchMessage(*state.torch).empty()) {
    return TorchFailed(*state.torch, what);
  }
  const TensordError code = state.program->device->AllocationError(state);
  return Fail(code, code == TENSORD_OUT_OF_MEMORY ? "CUDA out of memory: " + what : what);
}

TensordError AllocateTensor(CallState& state, int64_t ndim, const int64_t* sizes,
                            const int64_t* strides, int32_t dtype, int32_t device, Handle* tensor) {
  const int32_t index = device == kTorchCuda ? state.device_index : 0;
  const TensordEmptyFn empty = cuda_empty.load(std::memory_order_relaxed);
  if (device == kTorchCuda && empty != nullptr) {  // the device is the thread's current one
    *tensor = empty(ndim, sizes, strides, dtype);
    if (*tensor != nullptr) return TENSORD_OK;
  }
  if (state.torch->empty_strided(ndim, sizes, strides, dtype, device, index, tensor) == 0) {
    return TENSORD_OK;
  }
  *tensor = nullptr;
  return AllocationFailed(state, device, "cannot allocate a tensor");
}

TensordError TorchFailed(const Torch& torch, const std::string& what) {
  const std::string message = TorchMessage(torch);
  const bool memory = message.find("CUDA out of memory") != std::string::npos;
  return Fail(memory ? TENSORD_OUT_OF_MEMORY : TENSORD_OPERATOR,
              message.empty() ? what : what + ": " + message);
}

TensordError NewTensor(CallState& state, const Layout& layout, Handle* tensor) {
  return AllocateTensor(state, layout.ndim, Sizes(state, layout), Strides(state, layout),
                        layout.dtype, layout.device, tensor);
}

TensordError NewVector(CallState& state, const Layout& like, int64_t elements, Handle* tensor) {
  const int64_t stride = 1;
  return AllocateTensor(state, 1, &elements, &stride, like.dtype, like.device, tensor);
}

TensordError MakeView(CallState& state, uint32_t buffer, Handle root_tensor, Handle* tensor) {
  const Torch& torch = *state.torch;
  const BufferPlan& plan = state.program->buffers[buffer];
  const Layout& layout = plan.layout;
  const Layout& root = state.program->buffers[plan.root].layout;
  const int64_t delta = state.places[buffer].offset_bytes - state.places[plan.root].offset_bytes;
  if (layout.dtype == root.dtype) {
    // The offset counts from the root tensor's own, which need not be the captured one.
    if (torch.reinterpret_tensor(root_tensor, layout.ndim, Sizes(state, layout),
                                 Strides(state, layout), delta / layout.itemsize, tensor) != 0) {
      return TorchFailed(torch, "cannot make a view");
    }
    return TENSORD_OK;
  }
  // Another dtype: over the whole storage, which torch wants as a tensor without offset.
  int64_t offset = 0;
  Handle whole = root_tensor;
  const int64_t none = 0, one = 1;
  if (torch.get_storage_offset(root_tensor, &offset) != 0 ||
      (offset != 0 &&
       torch.reinterpret_tensor(root_tensor, 1, &none, &one, -offset, &whole) != 0)) {
    return TorchFailed(torch, "cannot make a view");
  }
  const TorchError error =
      torch.alloc_from_pool(whole, offset * root.itemsize + delta, layout.dtype, layout.ndim,
                            Sizes(state, layout), Strides(state, layout), tensor);
  if (whole != root_tensor) torch.delete_tensor(whole);
  return error == 0 ? TENSORD_OK : TorchFailed(torch, "cannot make a view of another dtype");
}

void SetAddress(CallState& state, uint32_t root, char* address) {
  state.addresses[root] = address;
  const int64_t start = state.places[root].offset_bytes;
  for (uint32_t view : state.program->buffers[root].views) {
    // Of an empty view nothing is read, and its offset may be anything.
    const bool empty = state.places[view].numel == 0;
    state.addresses[view] = empty ? address : address + (state.places[view].offset_bytes - start);
  }
}

TensordError AllocateBuffer(CallState& state, uint32_t buffer) {
  if (state.has_standalone_room && state.program->buffers[buffer].standalone) return TENSORD_OK;
  const Layout& layout = state.program->buffers[buffer].layout;
  const Place& place = state.places[buffer];
  if (state.program->buffers[buffer].donor != BufferPlan::kNoDonor) {
    bool taken = false;
    TENSORD_TRY(TakeDonor(state, buffer, &taken));
    if (taken) return TENSORD_OK;
  }
  Handle tensor = nullptr;
  if (place.offset_bytes == 0) [[likely]] {
    TENSORD_TRY(NewTensor(state, layout, &tensor));
    return Adopt(state, buffer, tensor);
  }
  const int64_t elements = (place.offset_bytes + place.extent_bytes) / layout.itemsize;
  Handle whole = nullptr;
  TENSORD_TRY(NewVector(state, layout, elements, &whole));
  const TorchError error = state.torch->reinterpret_tensor(
      whole, layout.ndim, Sizes(state, layout), Strides(state, layout),
      place.offset_bytes / layout.itemsize, &tensor);
  state.torch->delete_tensor(whole);
  if (error != 0) return TorchFailed(*state.torch, "cannot make a view");
  return Adopt(state, buffer, tensor);
}

void DropHandles(CallState& state, uint32_t buffer) {
  auto drop = [&state](uint32_t number) {
    Handle& handle = state.handles[number];
    if (handle != nullptr) state.torch->delete_tensor(std::exchange(handle, nullptr));
  };
  for (uint32_t view : state.program->buffers[buffer].views) drop(view);
  drop(buffer);
}

void FreeBuffer(CallState& state, uint32_t buffer) {
  DropHandles(state, buffer);
  std::erase_if(state.realigned, [&](const AlignedCopy& copy) {
    if (copy.buffer != buffer) return false;
    if (copy.tensor != nullptr) state.torch->delete_tensor(copy.tensor);
    return true;
  });
}

void ReleaseInput(CallState& state, uint32_t buffer) {
  FreeBuffer(state, buffer);
  TensordValue& input = state.inputs[state.program->buffers[buffer].source];
  if (input.size != TENSORD_GIVEN && input.size != TENSORD_DONATED) return;
  state.torch->delete_tensor(std::exchange(input.tensor, nullptr));
}

TensordError GetTensor(CallState& state, uint32_t buffer, Handle* tensor) {
  if ((*tensor = state.handles[buffer]) != nullptr) return TENSORD_OK;
  const BufferPlan& plan = state.program->buffers[buffer];
  const BufferPlan& root = state.program->buffers[plan.root];
  if (root.storage == Storage::kWorkspace && (state.has_standalone_room || !root.standalone)) {
    const Layout& layout = plan.layout;
    const int64_t offset =
        state.workspace_shift + state.values[root.source] + state.places[buffer].offset_bytes;
    if (state.torch->alloc_from_pool(state.workspace_tensor, offset, layout.dtype, layout.ndim,
                                     Sizes(state, layout), Strides(state, layout), tensor) != 0) {
      return TorchFailed(*state.torch, "cannot make a tensor in the workspace");
    }
    state.handles[buffer] = *tensor;
    return TENSORD_OK;
  }
  Handle root_tensor = state.handles[plan.root];  // of an input that was written: an aligned copy
  if (root.storage == Storage::kInput && root_tensor == nullptr) {
    root_tensor = state.inputs[root.source].tensor;
  }
  if (root.storage == Storage::kConstant) root_tensor = state.constants[root.source];
  if (root_tensor == nullptr) return Fail(TENSORD_CORRUPT, "a buffer has no tensor");
  if (plan.root == buffer) {
    *tensor = root_tensor;
    return TENSORD_OK;
  }
  TENSORD_TRY(MakeView(state, buffer, root_tensor, tensor));
  state.handles[buffer] = *tensor;
  return TENSORD_OK;
}

// An operator may give back a view of its argument. In the workspace, standalone buffers and inputs
// that one may take the place of included, that memory is used again.
bool LiesInWorkspace(const CallState& state, Handle result) {
  void* data = nullptr;
  if (state.torch->get_data_ptr(result, &data) != 0) return false;
  const char* const at = static_cast<char*>(data);
  const auto in = [at](const char* begin, int64_t bytes) {
    return at >= begin && at < begin + bytes;
  };
  const auto in_standalone = [&](uint32_t i) {
    const int64_t bytes = state.places[i].extent_bytes;
    if (state.handles[i] != nullptr) return in(state.addresses[i], bytes);
    const uint32_t donor = state.program->buffers[i].donor;
    if (donor == BufferPlan::kNoDonor) return false;
    const TensordValue& input = state.inputs[donor];
    void* memory = nullptr;
    return input.size == TENSORD_DONATED && input.tensor != nullptr &&
           state.torch->get_data_ptr(input.tensor, &memory) == 0 &&
           in(static_cast<char*>(memory), bytes);
  };
  const std::vector<uint32_t>& standalone = state.program->standalone;
  return in(state.workspace, state.workspace_size) ||
         std::any_of(standalone.begin(), standalone.end(), in_standalone);
}

// Whether kernels can read it where it is; it may be a view of an argument.
bool IsAligned(const CallState& state, uint32_t buffer, Handle result) {
  void* data = nullptr;
  return !state.program->buffers[buffer].in_launch ||
         (state.torch->get_data_ptr(result, &data) == 0 &&
          (reinterpret_cast<uintptr_t>(data) & (state.program->input_alignment - 1)) == 0);
}

TensordError TakeResult(CallState& state, uint32_t buffer, Handle result, const std::string& node) {
  const Torch& torch = *state.torch;
  bool defined = false;
  if (result != nullptr && torch.is_defined(result, &defined) != 0) defined = false;
  const BufferPlan& plan = state.program->buffers[buffer];
  if (!defined || !plan.layout.defined) {
    if (result != nullptr) torch.delete_tensor(result);
    if (plan.layout.defined) return Fail(TENSORD_OPERATOR, "node '" + node + "' gave no tensor");
    return TENSORD_OK;
  }
  bool same_strides = false;
  TensordError code = CheckResult(state, buffer, result, node, &same_strides);
  const bool fresh = plan.storage == Storage::kExtern && state.handles[buffer] == nullptr;
  if (code == TENSORD_OK && fresh && same_strides && !LiesInWorkspace(state, result) &&
      IsAligned(state, buffer, result)) {
    return Adopt(state, buffer, result);
  }
  if (code == TENSORD_OK && fresh) code = AllocateBuffer(state, buffer);
  if (code == TENSORD_OK) code = CopyResult(state, buffer, result);
  torch.delete_tensor(result);
  return code;
}

TensordError MakeOutput(CallState& state, const OutputPlan& output, Handle* tensor) {
  const Torch& torch = *state.torch;
  const BufferPlan& plan = state.program->buffers[output.index];
  Handle mine = nullptr;
  TENSORD_TRY(GetTensor(state, output.index, &mine));
  if (output.take) {
    *tensor = std::exchange(state.handles[output.index], nullptr);
    return TENSORD_OK;
  }
  // A constant is the program's own: the caller may write to what it gets.
  const bool constant = state.program->buffers[plan.root].storage == Storage::kConstant;
  const TorchError error =
      constant ? torch.clone_preserve_strides(mine, tensor) : torch.new_tensor_handle(mine, tensor);
  return error == 0 ? TENSORD_OK : TorchFailed(torch, "cannot return a tensor");
}

}  // namespace tensord::runtime
