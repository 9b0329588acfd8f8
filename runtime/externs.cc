#include "runtime/externs.h"

#include <atomic>
#include <string_view>

namespace tensord::runtime {

// Arguments in the operator's order, out= last.
struct DirectCall {
  std::string_view op;
  int32_t device;
  uint32_t num_arguments;
  TorchError (*call)(const Torch& torch, const TensordValue* arguments);
  bool (*exists)(const Torch& torch);
};

namespace {

double Number(const TensordValue& value) {
  return value.kind == TENSORD_DOUBLE ? value.real : static_cast<double>(value.integer);
}

template <auto Function>
TorchError Product(const Torch& torch, const TensordValue* a) {
  return (torch.*Function)(a[2].tensor, a[0].tensor, a[1].tensor);
}

template <auto Function>
TorchError AddProduct(const Torch& torch, const TensordValue* a) {
  return (torch.*Function)(a[5].tensor, a[0].tensor, a[1].tensor, a[2].tensor, Number(a[3]),
                           Number(a[4]));
}

template <auto Function>
bool Exists(const Torch& torch) {
  return torch.*Function != nullptr;
}

template <auto Function>
constexpr DirectCall ProductRow(std::string_view op, int32_t device) {
  return {op, device, 3, Product<Function>, Exists<Function>};
}
template <auto Function>
constexpr DirectCall AddProductRow(std::string_view op, int32_t device) {
  return {op, device, 6, AddProduct<Function>, Exists<Function>};
}

constexpr DirectCall kDirectCalls[] = {
    ProductRow<&Torch::cpu_mm_out>("aten::mm", kTorchCpu),
    ProductRow<&Torch::cpu_bmm_out>("aten::bmm", kTorchCpu),
    AddProductRow<&Torch::cpu_addmm_out>("aten::addmm", kTorchCpu),
    AddProductRow<&Torch::cpu_baddbmm_out>("aten::baddbmm", kTorchCpu),
    ProductRow<&Torch::cuda_mm_out>("aten::mm", kTorchCuda),
    ProductRow<&Torch::cuda_bmm_out>("aten::bmm", kTorchCuda),
    AddProductRow<&Torch::cuda_addmm_out>("aten::addmm", kTorchCuda),
    AddProductRow<&Torch::cuda_baddbmm_out>("aten::baddbmm", kTorchCuda),
};

// Tensors but for the two Scalars of the six-argument forms.
bool FitsDirect(const CallPlan& call) {
  for (uint32_t i = 0; i < call.num_arguments; ++i) {
    const TensordKind kind = call.arguments[i].value.kind;
    const bool scalar = call.num_arguments == 6 && (i == 3 || i == 4);
    if (scalar ? kind != TENSORD_INT && kind != TENSORD_DOUBLE && kind != TENSORD_BOOL
               : kind != TENSORD_TENSOR) {
      return false;
    }
  }
  return true;
}

struct Caller {
  TensordOperatorFn fn;
  void* context;
};
std::atomic<const Caller*> installed_caller{nullptr};

TensordError PrepareArguments(CallState& state, const CallPlan& call) {
  TensordValue* values = state.arguments.data();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const ArgumentPlan& plan = call.arguments[i];
    values[i] = plan.value;
    if (plan.slot != ArgumentPlan::kNothing) values[i].integer = state.values[plan.slot];
    if (plan.value.kind == TENSORD_DEVICE && plan.value.integer == kTorchCuda) {
      values[i].size = static_cast<size_t>(state.device_index);
    }
    if (plan.items != ArgumentPlan::kNothing) values[i].items = values + plan.items;
    if (plan.buffer != ArgumentPlan::kNothing) {
      TENSORD_TRY(GetTensor(state, plan.buffer, &values[i].tensor));
    }
  }
  return TENSORD_OK;
}

std::string Describe(const CallPlan& call) {
  return "node '" + call.node + "' (" + call.op +
         (call.overload.empty() ? "" : "." + call.overload) + ")";
}

TensordError CallBridge(const CallPlan& call, const TensordValue* arguments, Handle* results,
                        size_t num_results) {
  const Caller* caller = installed_caller.load(std::memory_order_acquire);
  if (caller == nullptr) {
    return Fail(TENSORD_UNAVAILABLE,
                Describe(call) + ": no operator caller is installed to run it");
  }
  const TensordOperatorCall request = {
      call.op.c_str(), call.overload.c_str(), arguments, call.num_arguments, results, num_results};
  SetLastError("");
  const int code = caller->fn(caller->context, &request);
  if (code == TENSORD_OK) return TENSORD_OK;
  const std::string why = LastError();
  return Fail(code == TENSORD_OUT_OF_MEMORY ? TENSORD_OUT_OF_MEMORY : TENSORD_OPERATOR,
              Describe(call) + ": " + (why.empty() ? "it raised" : why));
}

TensordError CallOperator(CallState& state, const CallPlan& call, Handle* results,
                          size_t num_results) {
  const TensordValue* arguments = state.arguments.data();
  if (call.direct != nullptr) {
    if (call.direct->call(*state.torch, arguments) == 0) return TENSORD_OK;
    return TorchFailed(*state.torch, Describe(call));
  }
  if (call.signature != nullptr && !call.use_caller.load(std::memory_order_relaxed)) {
    const TensordError code = CallStable(*state.torch, call, arguments, results, num_results);
    if (code == TENSORD_OK) return code;
    if (!HasOperatorCaller()) return TorchFailed(*state.torch, Describe(call));
    // It may be the conversion that failed (an older torch), so ask the bridge, which knows the
    // schema; the operators in the table have no effect but their results, so that calling again is
    // safe.
    const TensordError second = CallBridge(call, arguments, results, num_results);
    if (second == TENSORD_OK) call.use_caller.store(true, std::memory_order_relaxed);
    return second;
  }
  return CallBridge(call, arguments, results, num_results);
}

}  // namespace

void ChooseCall(int32_t device, CallPlan* call) {
  if (!call->into_out) {
    call->signature = FindSignature(*call);
    return;
  }
  for (const DirectCall& row : kDirectCalls) {
    if (row.op == call->op && row.device == device && row.num_arguments == call->num_arguments &&
        FitsDirect(*call)) {
      call->direct = &row;
    }
  }
}

void LinkCall(const Torch& torch, CallPlan* call) {
  if (call->direct != nullptr && !call->direct->exists(torch)) call->direct = nullptr;
}

TensordError RunCall(CallState& state, const CallPlan& call) {
  TENSORD_TRY(PrepareArguments(state, call));
  // The results of out= calls are arguments already.
  const size_t count = call.into_out ? 0 : call.results.size();
  constexpr size_t kInline = 16;
  Handle inline_results[kInline] = {};
  std::vector<Handle> more(count > kInline ? count : 0, nullptr);
  Handle* results = count > kInline ? more.data() : inline_results;
  TensordError code = CallOperator(state, call, results, count);
  for (size_t i = 0; i < count; ++i) {
    if (code == TENSORD_OK) {
      code = TakeResult(state, call.results[i], results[i], call.node);
    } else if (results[i] != nullptr) {
      state.torch->delete_tensor(results[i]);
    }
  }
  return code;
}

void SetOperatorCaller(TensordOperatorFn fn, void* context) {
  // The one before is not freed: a thread may be about to call it. Bridges install theirs once.
  installed_caller.store(fn != nullptr ? new Caller{fn, context} : nullptr,
                         std::memory_order_release);
}

bool HasOperatorCaller() { return installed_caller.load(std::memory_order_relaxed) != nullptr; }

}  // namespace tensord::runtime
