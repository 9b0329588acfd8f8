#include "runtime/run.h"

#include <algorithm>
#include <exception>

#include "runtime/externs.h"
#include "runtime/layout.h"
#include "runtime/tensors.h"

namespace tensord::runtime {
namespace {

// Set where torch's pool could not run a range; the launch that asked for it then fails.
thread_local bool parallel_for_failed = false;

void HostParallelFor(int64_t begin, int64_t end, int64_t grain, TensordRangeFn fn, void* context) {
  const Torch* torch = nullptr;
  if (GetTorch(&torch) != TENSORD_OK) return fn(begin, end, context);
  if (torch->parallel_for(begin, end, grain, fn, context) != 0) parallel_for_failed = true;
}

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
  std::string expected = DTypeName(plan.layout.dtype) + " with " +
                         std::to_string(plan.layout.ndim) + " dimensions on the CPU";
  if (with_sizes) {
    expected = DescribeLayout(plan.layout.dtype, plan.layout.ndim, state.values + plan.layout.sizes,
                              state.values + plan.layout.strides);
  }
  return Fail(TENSORD_INVALID,
              Named(*state.program, number) + ": expected " + expected + ", got " +
                  DescribeLayout(dtype, ndim, sizes, strides) +
                  (device == kTorchCpu ? "" : " on device type " + std::to_string(device)));
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
      device != plan.layout.device || ndim != plan.layout.ndim) [[unlikely]] {
    return InputDiffers(state, number, false);
  }
  *actual = {sizes, strides};
  return TENSORD_OK;
}

TensordError CheckTensor(const CallState& state, size_t number, const Actual& actual) {
  const Layout& layout = state.program->inputs[number].layout;
  if (SameLayout(layout.ndim, actual.sizes, actual.strides, state.values + layout.sizes,
                 state.values + layout.strides)) [[likely]] {
    return TENSORD_OK;
  }
  return InputDiffers(state, number, true);
}

// Reads the symbols from the inputs and evaluates every expression.
TensordError EvaluateSymbols(CallState& state, const Actual* actuals) {
  const TensordProgram& program = *state.program;
  state.own_values.assign(program.exprs.values().begin(), program.exprs.values().end());
  for (size_t i = 0; i < program.symbols.size(); ++i) {
    const SymbolPlan& symbol = program.symbols[i];
    const int64_t value = symbol.dim < 0 ? state.inputs[symbol.input].integer
                                         : actuals[symbol.input].sizes[symbol.dim];
    // A symbol without bounds has none recorded.
    if (symbol.max != 0 && (value < symbol.min || value > symbol.max)) {
      return Fail(TENSORD_INVALID, Named(program, symbol.input) + ": size " +
                                       std::to_string(value) + " is outside [" +
                                       std::to_string(symbol.min) + ", " +
                                       std::to_string(symbol.max) + "], as compiled");
    }
    state.own_values[i] = value;
  }
  if (!program.exprs.Evaluate(state.own_values.data())) {
    return Fail(TENSORD_INVALID, "a size overflows or divides by zero for these inputs");
  }
  state.values = state.own_values.data();
  return TENSORD_OK;
}

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

// A view of an input may reach beyond the input's own elements, into its storage, as as_strided
// does.
TensordError CheckInputViews(const CallState& state, uint32_t root, Handle tensor) {
  const Place& place = state.places[root];
  int64_t before = 0, after = place.extent_bytes;  // bytes around the input's first element
  for (uint32_t view : state.program->buffers[root].views) {
    const Place& other = state.places[view];
    if (other.numel == 0) continue;
    before = std::min(before, other.offset_bytes - place.offset_bytes);
    after = std::max(after, other.offset_bytes - place.offset_bytes + other.extent_bytes);
  }
  if (before == 0 && after == place.extent_bytes) [[likely]]
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

// Addresses of what exists before the first step.
TensordError BindBuffers(CallState& state) {
  const TensordProgram& program = *state.program;
  if (program.uses_workspace) TENSORD_TRY(AllocateWorkspace(state));
  const auto count = static_cast<uint32_t>(program.buffers.size());
  for (uint32_t i = 0; i < count; ++i) {
    const BufferPlan& buffer = program.buffers[i];
    if (buffer.storage == Storage::kWorkspace) {
      SetAddress(state, i,
                 state.workspace + state.values[buffer.source] + state.places[i].offset_bytes);
      continue;
    }
    if (buffer.storage != Storage::kInput && buffer.storage != Storage::kConstant) continue;
    const bool input = buffer.storage == Storage::kInput;
    const Handle tensor =
        input ? state.inputs[buffer.source].tensor : program.constants[buffer.source];
    void* data = nullptr;
    if (state.torch->get_data_ptr(tensor, &data) != 0) {
      return TorchFailed(*state.torch, "cannot reach an input's data");
    }
    if (input && !buffer.views.empty()) TENSORD_TRY(CheckInputViews(state, i, tensor));
    SetAddress(state, i, static_cast<char*>(data));
  }
  return TENSORD_OK;
}

TensordError Launch(CallState& state, const LaunchPlan& launch, const TensordKernelHost& host) {
  size_t count = 0;
  for (uint32_t number : launch.buffers) state.pointers[count++] = state.addresses[number];
  void* scratch = nullptr;
  if (launch.has_scratch) {
    const int64_t each = state.values[launch.scratch_bytes_per_thread];
    int64_t bytes = 0;
    if (each < 0 || __builtin_mul_overflow(each, host.threads, &bytes) || bytes > INT64_MAX / 2) {
      return Fail(TENSORD_CORRUPT, "a kernel's scratch size is negative or too large");
    }
    scratch = bytes == 0 ? nullptr : GetScratch(state, static_cast<size_t>(bytes));
    if (bytes != 0 && scratch == nullptr) {
      return Fail(TENSORD_UNAVAILABLE, "no memory for a kernel's scratch");
    }
  }
  const TensordKernelArgs arguments = {state.pointers.data(), state.values + launch.integers,
                                       scratch, &host};
  launch.function(&arguments);
  if (parallel_for_failed) [[unlikely]] {
    parallel_for_failed = false;
    return Fail(TENSORD_OPERATOR, "torch's thread pool failed under a kernel");
  }
  return TENSORD_OK;
}

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

TensordError RunSteps(CallState& state) {
  const TensordProgram& program = *state.program;
  const NoGrad no_grad(*state.torch, !program.calls.empty());
  TensordKernelHost host = {HostParallelFor, 1};
  uint32_t threads = 1;
  if (!program.launches.empty() && state.torch->get_num_threads(&threads) == 0) {
    host.threads = std::max<int32_t>(1, static_cast<int32_t>(threads));
  }
  for (const StepPlan& step : program.steps) {
    switch (step.kind) {
      case StepPlan::kAllocate:
        TENSORD_TRY(AllocateBuffer(state, step.index));
        break;
      case StepPlan::kLaunch:
        TENSORD_TRY(Launch(state, program.launches[step.index], host));
        break;
      case StepPlan::kCall:
        TENSORD_TRY(RunCall(state, *program.calls[step.index]));
        break;
      case StepPlan::kFree:
        FreeBuffer(state, step.index);
        break;
    }
  }
  return TENSORD_OK;
}

TensordError MakeOutputs(CallState& state, TensordValue* outputs) {
  const TensordProgram& program = *state.program;
  size_t done = 0;
  TensordError code = TENSORD_OK;
  for (; done < program.outputs.size() && code == TENSORD_OK; ++done) {
    const OutputPlan& plan = program.outputs[done];
    TensordValue& output = outputs[done];
    output = {};
    if (plan.kind == OutputPlan::kInteger) {
      output.kind = TENSORD_INT;
      output.integer = state.values[plan.index];
    } else if (plan.kind == OutputPlan::kBuffer) {
      Handle tensor = nullptr;
      code = MakeOutput(state, plan, &tensor);
      if (code == TENSORD_OK) {
        output.kind = TENSORD_TENSOR;
        output.tensor = tensor;
      }
    }
  }
  if (code == TENSORD_OK) return code;
  for (size_t i = 0; i < done; ++i) {
    if (outputs[i].kind == TENSORD_TENSOR) state.torch->delete_tensor(outputs[i].tensor);
    outputs[i] = {};
  }
  return code;
}

}  // namespace

TensordError Run(const TensordProgram& program, const TensordValue* inputs, TensordValue* outputs) {
  CallLease lease(program);
  CallState& state = *lease;
  state.inputs = inputs;
  TENSORD_TRY(BindInputs(state));
  TENSORD_TRY(BindBuffers(state));
  // From the first step on an input may have changed, so whatever fails is the caller's to see: it
  // must not be taken for a call that can be made again.
  TensordError code = TENSORD_OK;
  try {
    code = RunSteps(state);
    if (code == TENSORD_OK) code = MakeOutputs(state, outputs);
  } catch (const std::exception& error) {
    code = Fail(TENSORD_OPERATOR, error.what());
  }
  return code == TENSORD_OK ? TENSORD_OK : TENSORD_OPERATOR;
}

}  // namespace tensord::runtime
