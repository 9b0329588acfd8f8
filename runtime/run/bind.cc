// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/bind.h"

#include <algorithm>
#include <string>

#include "runtime/call/workspace.h"
#include "runtime/program/layout.h"
#include "runtime/run/align.h"

namespace tensord::runtime {
namespace {

std::string Named(const TensordProgram& program, size_t input) {
  const std::string& name = program.inputs[input].name;
  return "input " + std::to_string(input) + (name.empty() ? "" : " '" + name + "'");
}

// An input's own layout, borrowed from its tensor.
struct Actual {
  const int64_t* sizes;
  const int64_t* strides;
};

TensordError InputDiffers(const CallState& state, size_t number, bool with_sizes) {
  const InputPlan& plan = state.program->inputs[number];
  const Torch& torch = *state.torch;
  const Handle tensor = state.inputs[number].tensor;
  int32_t dtype = 0, device = 0;
  int64_t ndim = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  if (torch.get_dtype(tensor, &dtype) != 0 || torch.get_device_type(tensor, &device) != 0 ||
      torch.get_dim(tensor, &ndim) != 0 || torch.get_sizes(tensor, &sizes) != 0 ||
      torch.get_strides(tensor, &strides) != 0) {
    return Fail(TENSORD_INVALID, Named(*state.program, number) + " is no plain strided tensor");
  }
  const std::string where = DeviceName(plan.layout.device);
  std::string expected = DTypeName(plan.layout.dtype) + " with " +
                         std::to_string(plan.layout.ndim) + " dimensions on " + where;
  if (with_sizes) {
    expected = DescribeLayout(plan.layout.dtype, plan.layout.ndim, state.values + plan.layout.sizes,
                              state.values + plan.layout.strides);
  }
  return Fail(TENSORD_INVALID,
              Named(*state.program, number) + ": expected " + expected + ", got " +
                  DescribeLayout(dtype, ndim, sizes, strides) +
                  (device == plan.layout.device ? "" : " on " + DeviceName(device)));
}

// All CUDA inputs of a call are on one device, which is the call's.
TensordError ReadDeviceIndex(CallState& state, size_t number) {
  int32_t index = 0;
  if (state.torch->get_device_index(state.inputs[number].tensor, &index) != 0) {
    return TorchFailed(*state.torch, "cannot read an input's device");
  }
  if (state.device_index < 0) state.device_index = index;
  if (state.device_index == index) [[likely]]
    return TENSORD_OK;
  return Fail(TENSORD_INVALID,
              Named(*state.program, number) + " is on cuda:" + std::to_string(index) +
                  ", inputs before it are on cuda:" + std::to_string(state.device_index) +
                  ": a program runs on one device");
}

// Reads a tensor input's layout and address; checks what needs no symbol.
TensordError ReadTensor(CallState& state, size_t number, Actual* actual) {
  const InputPlan& plan = state.program->inputs[number];
  const Torch& torch = *state.torch;
  const Handle tensor = state.inputs[number].tensor;
  int32_t dtype = 0, device = 0;
  int64_t ndim = 0;
  int64_t *sizes = nullptr, *strides = nullptr;
  if (tensor == nullptr) return Fail(TENSORD_INVALID, Named(*state.program, number) + " is null");
  if (torch.get_dtype(tensor, &dtype) != 0 || torch.get_device_type(tensor, &device) != 0 ||
      torch.get_dim(tensor, &ndim) != 0 || torch.get_sizes(tensor, &sizes) != 0 ||
      torch.get_strides(tensor, &strides) != 0 || dtype != plan.layout.dtype ||
      ndim != plan.layout.ndim ||
      (device != plan.layout.device && !MayBeElsewhere(plan.layout, sizes, plan.in_launch)))
      [[unlikely]] {
    return InputDiffers(state, number, false);
  }
  *actual = {sizes, strides};
  return device == kTorchCuda ? ReadDeviceIndex(state, number) : TENSORD_OK;
}

TensordError CheckTensor(const CallState& state, size_t number, const Actual& actual) {
  const Layout& layout = state.program->inputs[number].layout;
  if (SameLayout(layout.ndim, actual.sizes, actual.strides, state.values + layout.sizes,
                 state.values + layout.strides)) [[likely]] {
    return TENSORD_OK;
  }
  return InputDiffers(state, number, true);
}

// The value of a symbol that an input shows, or that is defined by those before it.
TensordError ReadSymbol(const CallState& state, const Actual* actuals, size_t number,
                        int64_t* value) {
  const TensordProgram& program = *state.program;
  const SymbolPlan& symbol = program.symbols[number];
  const bool shown = !symbol.definition;
  if (shown) {
    *value = symbol.dim < 0 ? state.inputs[symbol.input].integer
                            : actuals[symbol.input].sizes[symbol.dim];
  } else if (!symbol.definition->Evaluate(state.own_values.data(), value)) {
    return Fail(TENSORD_INVALID, "a size that is computed from others is no integer of 64 bits");
  }
  // A symbol that is read and has no bounds has none recorded.
  if ((!shown || symbol.max != 0) && (*value < symbol.min || *value > symbol.max)) {
    return Fail(
        TENSORD_INVALID,
        (shown ? Named(program, symbol.input) + ": size " : "a size computed from others: ") +
            std::to_string(*value) + " is outside [" + std::to_string(symbol.min) + ", " +
            std::to_string(symbol.max) + "], as compiled");
  }
  return TENSORD_OK;
}

// Reads the symbols from the inputs and evaluates every expression.
TensordError EvaluateSymbols(CallState& state, const Actual* actuals) {
  const TensordProgram& program = *state.program;
  state.own_values.assign(program.exprs.values().begin(), program.exprs.values().end());
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    TENSORD_TRY(ReadSymbol(state, actuals, i, &state.own_values[i]));
  }
  if (!program.exprs.Evaluate(state.own_values.data())) {
    return Fail(TENSORD_INVALID, "a size overflows or divides by zero for these inputs");
  }
  state.values = state.own_values.data();
  return TENSORD_OK;
}

TensordError CheckInputViews(const CallState& state, uint32_t root, Handle tensor) {
  const auto [before, after] = ReachOfViews(state, root);
  if (before == 0 && after == state.places[root].extent_bytes) [[likely]]
    return TENSORD_OK;
  int64_t offset = 0, size = 0;
  if (state.torch->get_storage_offset(tensor, &offset) != 0 ||
      state.torch->get_storage_size(tensor, &size) != 0) {
    return TorchFailed(*state.torch, "cannot read an input's storage");
  }
  const int64_t start = offset * state.program->buffers[root].layout.itemsize;
  if (start + before < 0 || start + after > size) {
    return Fail(TENSORD_INVALID, Named(*state.program, state.program->buffers[root].source) +
                                     ": its storage is smaller than what was captured");
  }
  return TENSORD_OK;
}

}  // namespace

TensordError BindInputs(CallState& state) {
  const TensordProgram& program = *state.program;
  const size_t count = program.inputs.size();
  constexpr size_t kInline = 64;
  Actual inline_actuals[kInline];
  std::vector<Actual> more(count > kInline ? count : 0);
  Actual* actuals = count > kInline ? more.data() : inline_actuals;
  state.values = program.exprs.values().data();
  const bool is_static = program.exprs.is_static();
  for (size_t i = 0; i < count; ++i) {
    const InputPlan& plan = program.inputs[i];
    const TensordKind wanted = plan.is_tensor ? TENSORD_TENSOR : TENSORD_INT;
    if (state.inputs[i].kind != wanted) {
      return Fail(TENSORD_INVALID, Named(program, i) + (plan.is_tensor ? ": expected a tensor"
                                                                       : ": expected an integer"));
    }
    if (!plan.is_tensor) continue;
    TENSORD_TRY(ReadTensor(state, i, &actuals[i]));
    if (is_static) TENSORD_TRY(CheckTensor(state, i, actuals[i]));
  }
  // Integers may be bound to symbols even where nothing depends on them.
  if (!program.symbols.empty()) TENSORD_TRY(EvaluateSymbols(state, actuals));
  for (size_t i = 0; i < count; ++i) {
    const InputPlan& plan = program.inputs[i];
    if (plan.is_tensor) {
      if (!is_static) TENSORD_TRY(CheckTensor(state, i, actuals[i]));
    } else if (state.values[plan.size] != state.inputs[i].integer) {
      return Fail(TENSORD_INVALID, Named(program, i) + ": expected " +
                                       std::to_string(state.values[plan.size]) + ", got " +
                                       std::to_string(state.inputs[i].integer));
    }
  }
  if (is_static) {
    state.places = program.places.data();
    return TENSORD_OK;
  }
  state.own_places.resize(program.buffers.size());
  TENSORD_TRY(ComputePlaces(program, state.values, state.own_places.data()));
  state.places = state.own_places.data();
  return TENSORD_OK;
}

Reach ReachOfViews(const CallState& state, uint32_t root) {
  const Place& place = state.places[root];
  Reach reach = {0, place.extent_bytes};
  for (uint32_t view : state.program->buffers[root].views) {
    const Place& other = state.places[view];
    if (other.numel == 0) continue;
    const int64_t start = other.offset_bytes - place.offset_bytes;
    reach.before = std::min(reach.before, start);
    reach.after = std::max(reach.after, start + other.extent_bytes);
  }
  return reach;
}

TensordError BindBuffers(CallState& state) {
  const TensordProgram& program = *state.program;
  if (program.uses_workspace) TENSORD_TRY(AllocateWorkspace(state));
  uintptr_t in_launches = 0;  // the bits of all addresses that kernels read inputs at
  const auto count = static_cast<uint32_t>(program.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    const BufferPlan& buffer = program.buffers[i];
    if (buffer.storage == Storage::kWorkspace) {
      if (buffer.standalone && !state.has_standalone_room) continue;
      SetAddress(state, i,
                 state.workspace + state.values[buffer.source] + state.places[i].offset_bytes);
      continue;
    }
    if (buffer.storage != Storage::kInput && buffer.storage != Storage::kConstant) continue;
    const bool input = buffer.storage == Storage::kInput;
    const Handle tensor =
        input ? state.inputs[buffer.source].tensor : state.constants[buffer.source];
    void* data = nullptr;
    if (state.torch->get_data_ptr(tensor, &data) != 0) {
      return TorchFailed(*state.torch, "cannot reach an input's data");
    }
    if (input && !buffer.views.empty()) TENSORD_TRY(CheckInputViews(state, i, tensor));
    if (buffer.in_launch) in_launches |= reinterpret_cast<uintptr_t>(data);
    SetAddress(state, i, static_cast<char*>(data));
  }
  if ((in_launches & (program.input_alignment - 1)) != 0) [[unlikely]] {
    return AlignInputs(state);
  }
  return TENSORD_OK;
}

}  // namespace tensord::runtime
