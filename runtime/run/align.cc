// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/align.h"

#include <algorithm>
#include <utility>

#include "runtime/run/bind.h"

namespace tensord::runtime {
namespace {

// Owned.
class Tensor {
 public:
  explicit Tensor(const Torch& torch) : torch_(torch) {}
  ~Tensor() {
    if (handle_ != nullptr) torch_.delete_tensor(handle_);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  const Torch& torch_;
  Handle handle_ = nullptr;
};

bool IsRealigned(const CallState& state, uint32_t root) {
  return std::ranges::any_of(state.realigned,
                             [&](const AlignedCopy& copy) { return copy.buffer == root; });
}

int64_t CeilDiv(int64_t value, int64_t by) { return (value + by - 1) / by; }

TensordError AlignInput(CallState& state, uint32_t number) {
  const Torch& torch = *state.torch;
  const BufferPlan& buffer = state.program->buffers[number];
  const Layout& layout = buffer.layout;
  const Handle input = state.inputs[buffer.source].tensor;
  const int64_t itemsize = layout.itemsize, one = 1;
  const auto alignment = static_cast<int64_t>(state.program->input_alignment);
  // Elements before and from the first one on. In the copy the first stays on a multiple of the
  // alignment, of which every element's size is a divisor.
  const Reach reach = ReachOfViews(state, number);
  const int64_t before = CeilDiv(-reach.before, itemsize);
  const int64_t after = CeilDiv(reach.after, itemsize);
  const int64_t first = CeilDiv(before * itemsize, alignment) * alignment / itemsize;
  const int64_t count = before + after;
  Tensor whole(torch), target(torch), source(torch), copy(torch);
  TENSORD_TRY(NewVector(state, layout, first + after, whole.out()));
  if (torch.reinterpret_tensor(whole.get(), 1, &count, &one, first - before, target.out()) != 0 ||
      torch.reinterpret_tensor(input, 1, &count, &one, -before, source.out()) != 0 ||
      torch.copy(target.get(), source.get(), 0) != 0 ||
      torch.reinterpret_tensor(whole.get(), layout.ndim, state.values + layout.sizes,
                               state.values + layout.strides, first, copy.out()) != 0) {
    return TorchFailed(torch, "cannot copy an input to an aligned address");
  }
  void* data = nullptr;
  if (torch.get_data_ptr(copy.get(), &data) != 0) {
    return TorchFailed(torch, "cannot reach an input's data");
  }
  state.realigned.emplace_back(number, copy.release());
  SetAddress(state, number, static_cast<char*>(data));
  return TENSORD_OK;
}

// Copies what `number`, on a copied input, has become to the input itself. Only its own elements:
// between them may lie those of others.
TensordError CopyBack(CallState& state, uint32_t number) {
  const BufferPlan& buffer = state.program->buffers[number];
  const BufferPlan& root = state.program->buffers[buffer.root];
  const Handle input = state.inputs[root.source].tensor;
  Handle from = nullptr;
  TENSORD_TRY(GetTensor(state, number, &from));
  Tensor view(*state.torch);
  Handle to = input;
  if (buffer.root != number) {
    TENSORD_TRY(MakeView(state, number, input, view.out()));
    to = view.get();
  }
  if (state.torch->copy(to, from, 0) == 0) return TENSORD_OK;
  return TorchFailed(*state.torch, "cannot write to an input");
}

}  // namespace

TensordError AlignInputs(CallState& state) {
  const TensordProgram& program = *state.program;
  const NoGrad no_grad(*state.torch, true);
  const auto count = static_cast<uint32_t>(program.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    const BufferPlan& buffer = program.buffers[i];
    const auto address = reinterpret_cast<uintptr_t>(state.addresses[i]);
    if (buffer.storage == Storage::kInput && buffer.in_launch &&
        (address & (program.input_alignment - 1)) != 0) {
      TENSORD_TRY(AlignInput(state, i));
    }
  }
  return TENSORD_OK;
}

void GiveCopy(CallState& state, uint32_t buffer) {
  const auto copy = std::ranges::find(state.realigned, buffer, &AlignedCopy::buffer);
  if (copy == state.realigned.end()) return;
  DropHandles(state, buffer);
  state.handles[buffer] = std::exchange(copy->tensor, nullptr);
}

TensordError RestoreInputs(CallState& state) {
  const NoGrad no_grad(*state.torch, true);
  for (uint32_t number : state.program->written_inputs) {
    const uint32_t root = state.program->buffers[number].root;
    if (IsRealigned(state, root)) TENSORD_TRY(CopyBack(state, number));
  }
  while (!state.realigned.empty()) FreeBuffer(state, state.realigned.back().buffer);
  return TENSORD_OK;
}

}  // namespace tensord::runtime
