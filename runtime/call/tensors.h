// SPDX-License-Identifier: Apache-2.0
// The state of one call: addresses and tensors of its buffers.
//
// A thread keeps a few states and lends one to each call, so that a call allocates nothing of its
// own and a program may run inside another (an operator written in Python may call a compiled
// function).
#ifndef TENSORD_RUNTIME_CALL_TENSORS_H_
#define TENSORD_RUNTIME_CALL_TENSORS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/program/plan.h"

namespace tensord::runtime {

// Of CUDA: cuda/cuda_driver.h.
struct CudaDriver;
struct CuStreamOpaque;

struct CallState {
  ~CallState();

  const TensordProgram* program = nullptr;
  const Torch* torch = nullptr;
  const int64_t* values = nullptr;  // of the slots
  const Place* places = nullptr;
  TensordValue* inputs = nullptr;
  const Handle* constants = nullptr;  // of the program, on the call's device
  int32_t device_index = -1;          // of CUDA; -1 until known
  char* workspace = nullptr;          // aligned
  int64_t workspace_shift = 0;        // from the start of workspace_tensor
  bool holds_apart = false;           // the workspace has room for what may lie apart

  std::vector<int64_t> own_values;
  std::vector<Place> own_places;
  std::vector<char*> addresses;         // per buffer: its first element
  std::vector<Handle> handles;          // per buffer: owned by this call, or null
  std::vector<void*> pointers;          // of one CPU launch
  std::vector<uint64_t> words;          // of one CUDA launch: its kernel's parameter
  std::vector<uint32_t> realigned;      // buffers on inputs, whose handle is a copy (align.h)
  std::vector<TensordValue> arguments;  // of one operator call

  Handle workspace_tensor = nullptr;  // bytes; kept for the thread's next call where that is safe
  int64_t workspace_size = 0;
  void* scratch = nullptr;
  size_t scratch_size = 0;

  TensordKernelHost host = {};         // for CPU kernels
  TensordIndexFault index_fault = {};  // what they find
  // Of a call on CUDA, between Device::Begin and End.
  const CudaDriver* driver = nullptr;
  CuStreamOpaque* stream = nullptr;
  void* device_guard = nullptr;        // torch's
  Handle product_workspace = nullptr;  // for cuBLASLt, from the first product that wants it on
  const void* prepared = nullptr;      // the device's own
  uint32_t calls_done = 0;  // calls before this one are done, some along with an earlier one
};

// Operators run without autograd: the graph is autograd's already.
class NoGrad {
 public:
  NoGrad(const Torch& torch, bool wanted)
      : torch_(torch), restore_(wanted && torch.grad_mode_is_enabled()) {
    if (restore_) torch_.grad_mode_set_enabled(false);
  }
  ~NoGrad() {
    if (restore_) torch_.grad_mode_set_enabled(true);
  }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  const Torch& torch_;
  bool restore_;
};

// Lends the thread a state for `program` and takes it back, whatever happened.
class CallLease {
 public:
  explicit CallLease(const TensordProgram& program);
  ~CallLease();
  CallLease(const CallLease&) = delete;
  CallLease& operator=(const CallLease&) = delete;
  CallState& operator*() { return *state_; }

 private:
  std::unique_ptr<CallState> state_;
};

// TENSORD_OPERATOR with torch's message, if it tells, after `what`; TENSORD_OUT_OF_MEMORY where the
// message says so.
[[nodiscard]] TensordError TorchFailed(const Torch& torch, const std::string& what);

// A new tensor of `layout` on its device (of CUDA: the call's), with a storage of its own that ends
// with it. TENSORD_OUT_OF_MEMORY where a device has none left.
TensordError NewTensor(CallState& state, const Layout& layout, Handle* tensor);
TensordError NewVector(CallState& state, const Layout& like, int64_t elements, Handle* tensor);

TensordError AllocateWorkspace(CallState& state);
// As tensord_lend_workspace.
void LendWorkspace(Handle tensor, int64_t bytes);
// Gives back what products of the call took for themselves.
void FreeProductWorkspace(CallState& state);
// At least `bytes`, 64-aligned, not cleared; null when there is no memory.
void* GetScratch(CallState& state, size_t bytes);

// Sets the address of a root buffer and of all its views.
void SetAddress(CallState& state, uint32_t root, char* address);

// How tensors on CUDA are made from now on, where it can; null: as others are.
void SetCudaEmpty(TensordEmptyFn fn);

// Allocates an owned buffer, or one that lies apart from this call's workspace.
TensordError AllocateBuffer(CallState& state, uint32_t buffer);
// Drops a buffer's tensor and those of its views.
void FreeBuffer(CallState& state, uint32_t buffer);

// Drops an input's tensor if it is the call's own, and what the call made of it.
void ReleaseInput(CallState& state, uint32_t buffer);

// A new view as `buffer` is of its root, of `root_tensor`, which is laid out as the root.
TensordError MakeView(CallState& state, uint32_t buffer, Handle root_tensor, Handle* tensor);

// The tensor of a buffer that has a value, borrowed: from the caller, the program or this call.
TensordError GetTensor(CallState& state, uint32_t buffer, Handle* tensor);

// Takes ownership of what an operator returned (null: undefined) for the result `buffer`. A result
// with other strides than planned is copied; TENSORD_OPERATOR for other sizes or another dtype.
TensordError TakeResult(CallState& state, uint32_t buffer, Handle result, const std::string& node);

// A new reference for the program's caller.
TensordError MakeOutput(CallState& state, const OutputPlan& output, Handle* tensor);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CALL_TENSORS_H_
