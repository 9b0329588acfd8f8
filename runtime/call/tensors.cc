// SPDX-License-Identifier: Apache-2.0
#include "runtime/call/tensors.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "runtime/program/layout.h"

namespace tensord::runtime {
namespace {

constexpr int64_t kAlignment = 64;
// A thread keeps no workspace beyond this between calls.
constexpr int64_t kMaxKeptWorkspace = int64_t{256} << 20;
// Such buffers are where memory peaks, and few, so that little of the host's time goes into what is
// freed for them and taken again.
constexpr int64_t kLargeBuffer = int64_t{32} << 20;
constexpr int32_t kByte = 0;  // torch's ScalarType of uint8

std::atomic<TensordEmptyFn> cuda_empty{nullptr};

std::vector<std::unique_ptr<CallState>>& FreeStates() {
  thread_local std::vector<std::unique_ptr<CallState>> states;
  return states;
}

struct Lent {
  Handle tensor = nullptr;
  int64_t bytes = 0;
};
thread_local Lent lent;

void DropWorkspace(CallState& state) {
  if (state.workspace_tensor != nullptr) state.torch->delete_tensor(state.workspace_tensor);
  state.workspace_tensor = nullptr;
  state.workspace_size = 0;
}

// The lent one, as the call's own reference, with room for the blocks too where it has that; false
// where there is none or it is too small. One call takes it: another within that call must not
// write over it.
bool TakeLentWorkspace(CallState& state, int64_t bytes, int64_t apart) {
  const Lent taken = std::exchange(lent, {});
  if (taken.tensor == nullptr || taken.bytes < bytes) return false;
  if (state.torch->new_tensor_handle(taken.tensor, &state.workspace_tensor) != 0) {
    state.workspace_tensor = nullptr;
    return false;
  }
  state.holds_apart = apart > 0 && taken.bytes - bytes >= apart;
  state.workspace_size = bytes + (state.holds_apart ? apart : 0);
  return true;
}

const int64_t* Sizes(const CallState& state, const Layout& layout) {
  return state.values + layout.sizes;
}
const int64_t* Strides(const CallState& state, const Layout& layout) {
  return state.values + layout.strides;
}

// A failed allocation: torch's own words where it has some.
TensordError AllocationFailed(const CallState& state, int32_t device, const std::string& what) {
  if (device == kTorchCpu || !TorchMessage(*state.torch).empty()) {
    return TorchFailed(*state.torch, what);
  }
  const TensordError code = state.program->device->AllocationError(state);
  return Fail(code, code == TENSORD_OUT_OF_MEMORY ? "CUDA out of memory: " + what : what);
}

TensordError Allocate(CallState& state, int64_t ndim, const int64_t* sizes, const int64_t* strides,
                      int32_t dtype, int32_t device, Handle* tensor) {
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

CallState::~CallState() {
  DropWorkspace(*this);
  std::free(scratch);
}

CallLease::CallLease(const TensordProgram& program) {
  auto& states = FreeStates();
  if (states.empty()) {
    state_ = std::make_unique<CallState>();
  } else {
    state_ = std::move(states.back());
    states.pop_back();
  }
  CallState& state = *state_;
  state.program = &program;
  state.torch = program.torch;
  state.addresses.resize(program.buffers.size());
  state.handles.assign(program.buffers.size(), nullptr);
  state.device_index = -1;
  state.holds_apart = false;
  state.realigned.clear();
  if (state.words.size() < program.max_launch_words) state.words.resize(program.max_launch_words);
  if (state.pointers.size() < program.max_launch_buffers) {
    state.pointers.resize(program.max_launch_buffers);
  }
  if (state.arguments.size() < program.max_arguments) state.arguments.resize(program.max_arguments);
}

CallLease::~CallLease() {
  for (Handle handle : state_->handles) {
    if (handle != nullptr) state_->torch->delete_tensor(handle);
  }
  state_->handles.clear();
  if (!state_->program->reuses_workspace || state_->workspace_size > kMaxKeptWorkspace) {
    DropWorkspace(*state_);
  }
  state_->program = nullptr;
  FreeStates().push_back(std::move(state_));
}

TensordError TorchFailed(const Torch& torch, const std::string& what) {
  const std::string message = TorchMessage(torch);
  const bool memory = message.find("CUDA out of memory") != std::string::npos;
  return Fail(memory ? TENSORD_OUT_OF_MEMORY : TENSORD_OPERATOR,
              message.empty() ? what : what + ": " + message);
}

TensordError NewTensor(CallState& state, const Layout& layout, Handle* tensor) {
  return Allocate(state, layout.ndim, Sizes(state, layout), Strides(state, layout), layout.dtype,
                  layout.device, tensor);
}

TensordError NewVector(CallState& state, const Layout& like, int64_t elements, Handle* tensor) {
  const int64_t stride = 1;
  return Allocate(state, 1, &elements, &stride, like.dtype, like.device, tensor);
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
  Handle whole = nullptr;
  const int64_t none = 0, one = 1;
  if (torch.get_storage_offset(root_tensor, &offset) != 0 ||
      torch.reinterpret_tensor(root_tensor, 1, &none, &one, -offset, &whole) != 0) {
    return TorchFailed(torch, "cannot make a view");
  }
  const TorchError error =
      torch.alloc_from_pool(whole, offset * root.itemsize + delta, layout.dtype, layout.ndim,
                            Sizes(state, layout), Strides(state, layout), tensor);
  torch.delete_tensor(whole);
  return error == 0 ? TENSORD_OK : TorchFailed(torch, "cannot make a view of another dtype");
}

TensordError AllocateWorkspace(CallState& state) {
  const int64_t bytes = state.values[state.program->workspace_bytes];
  const int64_t apart = state.values[state.program->apart_bytes];
  const int32_t device = state.program->device_type;
  state.holds_apart = false;
  // A kept one is of a CPU program.
  if (device != kTorchCpu || state.workspace_tensor == nullptr || state.workspace_size < bytes) {
    DropWorkspace(state);
  }
  bool has_one = state.workspace_tensor != nullptr;
  if (!has_one && device != kTorchCpu) has_one = TakeLentWorkspace(state, bytes, apart);
  if (!has_one) {
    // torch's allocator for the device aligns enough, and rounds up what is a byte too long.
    const int64_t padding = device == kTorchCpu ? kAlignment : 0, stride = 1;
    int64_t padded = 0;
    if (__builtin_add_overflow(bytes, padding, &padded)) {
      return Fail(TENSORD_CORRUPT, "the workspace is too large");
    }
    if (Allocate(state, 1, &padded, &stride, kByte, device, &state.workspace_tensor) !=
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
  state.workspace_shift = static_cast<int64_t>(-address & (kAlignment - 1));
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
    state.scratch_size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    state.scratch = std::aligned_alloc(kAlignment, state.scratch_size);
    if (state.scratch == nullptr) state.scratch_size = 0;
  }
  return state.scratch;
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
  if (state.holds_apart && state.program->buffers[buffer].apart) return TENSORD_OK;
  const Layout& layout = state.program->buffers[buffer].layout;
  const Place& place = state.places[buffer];
  // What products need beside would only lie there meanwhile; the next one that wants it takes it
  // again.
  if (place.extent_bytes >= kLargeBuffer) FreeProductWorkspace(state);
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

void FreeBuffer(CallState& state, uint32_t buffer) {
  auto drop = [&state](uint32_t number) {
    Handle& handle = state.handles[number];
    if (handle != nullptr) state.torch->delete_tensor(std::exchange(handle, nullptr));
  };
  for (uint32_t view : state.program->buffers[buffer].views) drop(view);
  drop(buffer);
}

void ReleaseInput(CallState& state, uint32_t buffer) {
  FreeBuffer(state, buffer);
  TensordValue& input = state.inputs[state.program->buffers[buffer].source];
  if (input.size != TENSORD_GIVEN) return;
  state.torch->delete_tensor(std::exchange(input.tensor, nullptr));
}

TensordError GetTensor(CallState& state, uint32_t buffer, Handle* tensor) {
  if ((*tensor = state.handles[buffer]) != nullptr) return TENSORD_OK;
  const BufferPlan& plan = state.program->buffers[buffer];
  const BufferPlan& root = state.program->buffers[plan.root];
  if (root.storage == Storage::kWorkspace && (state.holds_apart || !root.apart)) {
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
  Handle root_tensor = state.handles[plan.root];  // of an input: a copy that is aligned
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

// An operator may give back a view of its argument. In the workspace that memory is used again.
bool LiesInWorkspace(const CallState& state, Handle result) {
  void* data = nullptr;
  if (state.workspace == nullptr || state.torch->get_data_ptr(result, &data) != 0) return false;
  const char* const at = static_cast<char*>(data);
  return at >= state.workspace && at < state.workspace + state.workspace_size;
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
  if (code == TENSORD_OK && fresh && same_strides && !LiesInWorkspace(state, result)) {
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
