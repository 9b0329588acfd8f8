// The state of one call: addresses and tensors of its buffers.
//
// A thread keeps a few states and lends one to each call, so that a call allocates nothing of its
// own and a program may run inside another (an operator written in Python may call a compiled
// function).
#ifndef TENSORD_RUNTIME_TENSORS_H_
#define TENSORD_RUNTIME_TENSORS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/plan.h"

namespace tensord::runtime {

struct CallState {
  ~CallState();

  const TensordProgram* program = nullptr;
  const Torch* torch = nullptr;
  const int64_t* values = nullptr;  // of the slots
  const Place* places = nullptr;
  const TensordValue* inputs = nullptr;
  char* workspace = nullptr;    // aligned
  int64_t workspace_shift = 0;  // from the start of workspace_tensor

  std::vector<int64_t> own_values;
  std::vector<Place> own_places;
  std::vector<char*> addresses;         // per buffer: its first element
  std::vector<Handle> handles;          // per buffer: owned by this call, or null
  std::vector<void*> pointers;          // of one launch
  std::vector<TensordValue> arguments;  // of one operator call

  Handle workspace_tensor = nullptr;  // bytes; kept for the thread's next call where that is safe
  int64_t workspace_size = 0;
  void* scratch = nullptr;
  size_t scratch_size = 0;
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

// TENSORD_OPERATOR with torch's message, if it tells, after `what`.
[[nodiscard]] TensordError TorchFailed(const Torch& torch, const std::string& what);

TensordError AllocateWorkspace(CallState& state);
// At least `bytes`, 64-aligned, not cleared; null when there is no memory.
void* GetScratch(CallState& state, size_t bytes);

// Sets the address of a root buffer and of all its views.
void SetAddress(CallState& state, uint32_t root, char* address);

// Allocates an owned buffer.
TensordError AllocateBuffer(CallState& state, uint32_t buffer);
// Drops a buffer's tensor and those of its views.
void FreeBuffer(CallState& state, uint32_t buffer);

// The tensor of a buffer that has a value, borrowed: from the caller, the program or this call.
TensordError GetTensor(CallState& state, uint32_t buffer, Handle* tensor);

// Takes ownership of what an operator returned (null: undefined) for the result `buffer`. A result
// with other strides than planned is copied; TENSORD_OPERATOR for other sizes or another dtype.
TensordError TakeResult(CallState& state, uint32_t buffer, Handle result, const std::string& node);

// A new reference for the program's caller.
TensordError MakeOutput(CallState& state, const OutputPlan& output, Handle* tensor);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_TENSORS_H_
