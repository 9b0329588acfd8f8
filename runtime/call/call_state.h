// SPDX-License-Identifier: Apache-2.0
// The state of one call: addresses and tensors of its buffers.
//
// A thread keeps a few states and lends one to each call, so that a call allocates nothing of its
// own and a program may run inside another (an operator written in Python may call a compiled
// function).
#ifndef TENSORD_RUNTIME_CALL_CALL_STATE_H_
#define TENSORD_RUNTIME_CALL_CALL_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/program/plan.h"

namespace tensord::runtime {

// Of CUDA: cuda/cuda_driver.h.
struct CudaDriver;
struct CuStreamOpaque;

// What kernels have in place of an input whose address is not aligned.
struct AlignedCopy {
  uint32_t buffer;          // on the input
  Handle tensor = nullptr;  // owned; null once it is the buffer's handle: calls have it, too
};

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
  bool has_standalone_room = false;   // the workspace has room for standalone buffers

  std::vector<int64_t> own_values;
  std::vector<Place> own_places;
  std::vector<char*> addresses;         // per buffer: its first element
  std::vector<Handle> handles;          // per buffer: owned by this call, or null
  std::vector<void*> pointers;          // of one CPU launch
  std::vector<uint64_t> words;          // of one CUDA launch: its kernel's parameter
  std::vector<AlignedCopy> realigned;   // of inputs (align.h)
  std::vector<TensordValue> arguments;  // of one operator call

  Handle workspace_tensor = nullptr;  // bytes; kept for the thread's next call where that is safe
  int64_t workspace_size = 0;
  void* scratch = nullptr;
  size_t scratch_size = 0;

  TensordKernelHost host = {};  // for CPU kernels
  TensordFault fault = {};      // what they find
  // Of a call on CUDA, between Device::Begin and End.
  const CudaDriver* driver = nullptr;
  CuStreamOpaque* stream = nullptr;
  void* device_guard = nullptr;        // torch's
  Handle product_workspace = nullptr;  // for cuBLASLt; a small one until the call ends
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

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_CALL_CALL_STATE_H_
