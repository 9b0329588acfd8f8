// SPDX-License-Identifier: Apache-2.0
#include "runtime/operators/externs.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "runtime/operators/direct_calls.h"
#include "runtime/operators/python_error.h"

namespace tensord::runtime {

namespace {

struct Caller {
  Caller(TensordOperatorFn f, void* c) : fn(f), context(c) {}
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
                        size_t num_results, bool again) {
  const Caller* caller = installed_caller.load(std::memory_order_acquire);
  if (caller == nullptr) {
    return Fail(TENSORD_UNAVAILABLE,
                Describe(call) + ": no operator caller is installed to run it");
  }
  const TensordOperatorCall request = {
      call.op.c_str(), call.overload.c_str(), arguments, call.num_arguments,
      results,         num_results,           again};
  SetLastError("");
  const int code = caller->fn(caller->context, &request);
  if (code == TENSORD_OK) return TENSORD_OK;
  const std::string why = LastError();
  return Fail(code == TENSORD_OUT_OF_MEMORY ? TENSORD_OUT_OF_MEMORY : TENSORD_OPERATOR,
              Describe(call) + ": " + (why.empty() ? "it raised" : why));
}

// By torch's stable interface. The message is lost where it fails.
TensordError CallShim(CallState& state, const CallPlan& call, Handle* results) {
  const TensordValue* arguments = state.arguments.data();
  if (call.direct == nullptr) return CallStable(*state.torch, call, arguments, results);
  const TorchError code = CallDirect(*state.torch, *call.direct, arguments, results);
  return code == 0 ? TENSORD_OK : TENSORD_OPERATOR;
}

// `results` has room for `num_results` and for all that an operator of the tables returns.
TensordError CallOperator(CallState& state, const CallPlan& call, Handle* results,
                          size_t num_results) {
  const bool has_shim = call.direct != nullptr || call.signature != nullptr;
  if (has_shim && !call.use_caller.load(std::memory_order_relaxed)) {
    const TensordError code = CallShim(state, call, results);
    if (code == TENSORD_OK) return code;
    if (call.into_out || !HasOperatorCaller()) return TorchFailed(*state.torch, Describe(call));
    // It may be the conversion that failed (an older torch), so ask the bridge, which knows the
    // schema and torch's message; the operators in the tables have no effect but their results, so
    // that calling again is safe.
    ClearPythonError();
    const TensordError second = CallBridge(call, state.arguments.data(), results, num_results,
                                           /*again=*/true);
    if (second == TENSORD_OK) call.use_caller.store(true, std::memory_order_relaxed);
    return second;
  }
  return CallBridge(call, state.arguments.data(), results, num_results, /*again=*/false);
}

}  // namespace

void ChooseCall(int32_t device, CallPlan* call) {
  if (!call->into_out) call->signature = FindSignature(*call);
  call->direct = FindDirectCall(device, *call);
}

void LinkCall(const Torch& torch, CallPlan* call) {
  if (call->direct != nullptr && !IsThere(torch, *call)) call->direct = nullptr;
}

TensordError RunCall(CallState& state, const CallPlan& call) {
  TENSORD_TRY(PrepareArguments(state, call));
  // The results of out= calls are arguments already.
  const size_t count = call.into_out ? 0 : call.results.size();
  constexpr size_t kInline = 16;
  const size_t room = std::max(count, kInline);
  Handle inline_results[kInline] = {};
  std::vector<Handle> more(count > kInline ? count : 0, nullptr);
  Handle* results = count > kInline ? more.data() : inline_results;
  TensordError code = CallOperator(state, call, results, count);
  for (size_t i = 0; i < room; ++i) {
    if (code == TENSORD_OK && i < count) {
      code = TakeResult(state, call.results[i], results[i], call.node);
    } else if (results[i] != nullptr) {
      state.torch->delete_tensor(results[i]);
    }
  }
  return code;
}

void SetOperatorCaller(TensordOperatorFn fn, void* context) {
  // Those before are kept: a thread may be about to call one. Bridges install theirs once.
  static std::mutex* const mutex = new std::mutex;
  static auto* const callers = new std::deque<Caller>;
  const std::lock_guard lock(*mutex);
  const Caller* const caller = fn != nullptr ? &callers->emplace_back(fn, context) : nullptr;
  installed_caller.store(caller, std::memory_order_release);
}

bool HasOperatorCaller() { return installed_caller.load(std::memory_order_relaxed) != nullptr; }

}  // namespace tensord::runtime
