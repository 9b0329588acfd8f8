// SPDX-License-Identifier: Apache-2.0
// The tensors of one call's buffers.
#ifndef TENSORD_RUNTIME_CALL_TENSORS_H_
#define TENSORD_RUNTIME_CALL_TENSORS_H_

#include <cstdint>
#include <string>

#include "runtime/call/call_state.h"

namespace tensord::runtime {

// TENSORD_OPERATOR with torch's message, if it tells, after `what`; TENSORD_OUT_OF_MEMORY where the
// message says so.
[[nodiscard]] TensordError TorchFailed(const Torch& torch, const std::string& what);

// A failed allocation of `what`: torch's own words where it has some, and TENSORD_OUT_OF_MEMORY
// where a device has none left.
TensordError AllocationFailed(const CallState& state, int32_t device, const std::string& what);

// A new tensor of these sizes and strides; of CUDA on the call's device. AllocationFailed.
TensordError AllocateTensor(CallState& state, int64_t ndim, const int64_t* sizes,
                            const int64_t* strides, int32_t dtype, int32_t device, Handle* tensor);

// A new tensor of `layout` on its device (of CUDA: the call's), with a storage of its own that ends
// with it. TENSORD_OUT_OF_MEMORY where a device has none left.
TensordError NewTensor(CallState& state, const Layout& layout, Handle* tensor);
TensordError NewVector(CallState& state, const Layout& like, int64_t elements, Handle* tensor);

// Sets the address of a root buffer and of all its views.
void SetAddress(CallState& state, uint32_t root, char* address);

// How tensors on CUDA are made from now on, where it can; null: as others are.
void SetCudaEmpty(TensordEmptyFn fn);

// Allocates an owned buffer, or one that stands alone beside this call's workspace.
TensordError AllocateBuffer(CallState& state, uint32_t buffer);
// Drops what this call made of a buffer for others: its tensor and those of its views.
void DropHandles(CallState& state, uint32_t buffer);
// The same, and an input's aligned copy.
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
