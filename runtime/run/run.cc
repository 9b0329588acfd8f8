// SPDX-License-Identifier: Apache-2.0
#include "runtime/run/run.h"

#include <exception>
#include <memory>

#include "runtime/call/tensors.h"
#include "runtime/operators/externs.h"
#include "runtime/profile/run_timer.h"
#include "runtime/run/align.h"
#include "runtime/run/bind.h"

namespace tensord::runtime {
namespace {

// What the device needs around a call.
class DeviceCall {
 public:
  explicit DeviceCall(CallState& state) : state_(state) {}
  ~DeviceCall() { state_.program->device->End(state_); }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  TensordError Begin() { return state_.program->device->Begin(state_); }

 private:
  CallState& state_;
};

// A launch in torch's profile. Operators that a plan calls show themselves.
class ProfiledRange {
 public:
  ProfiledRange(const Torch& torch, bool wanted, const std::string& label) : torch_(torch) {
    if (wanted && torch.record_start(label.c_str(), nullptr, nullptr, 0, &range_) != 0) {
      range_ = nullptr;
    }
  }
  ~ProfiledRange() {
    if (range_ != nullptr) torch_.record_end(range_);
  }
  ProfiledRange(const ProfiledRange&) = delete;
  ProfiledRange& operator=(const ProfiledRange&) = delete;

 private:
  const Torch& torch_;
  void* range_ = nullptr;
};

bool IsProfiled(const Torch& torch) {
  return torch.has_callbacks != nullptr && torch.record_start != nullptr &&
         torch.record_end != nullptr && torch.has_callbacks();
}

// A call by the device's own way where there is one, else by torch's operator.
template <typename Timer>
TensordError DoCall(CallState& state, uint32_t number, bool profiled, Timer& timer) {
  if (number < state.calls_done) return TENSORD_OK;  // along with an earlier one
  const typename Timer::Step timed(timer, TENSORD_STEP_CALL, number);
  const CallPlan& call = *state.program->calls[number];
  if (state.program->device->Takes(number)) {
    const ProfiledRange range(*state.torch, profiled, call.op);
    if (state.program->device->Call(state, number)) return TENSORD_OK;
  }
  return RunCall(state, call);
}

TensordError DoZeroFill(CallState& state, uint32_t number) {
  const ZeroFillPlan& fill = state.program->zero_fills[number];
  const int64_t offset = state.values[fill.offset], bytes = state.values[fill.bytes];
  const int64_t end = state.values[state.program->workspace_bytes];
  if (offset < 0 || bytes < 0 || offset > end || bytes > end - offset) [[unlikely]] {
    return Fail(TENSORD_CORRUPT, "what is to be zeroed lies outside the workspace");
  }
  return state.program->device->ZeroFill(state, state.workspace + offset,
                                         static_cast<size_t>(bytes));
}

// `timer`: NoTimer, or a RunTimer that is bound.
template <typename Timer>
TensordError RunSteps(CallState& state, Timer& timer) {
  using Timed = typename Timer::Step;
  const TensordProgram& program = *state.program;
  const bool profiled = IsProfiled(*state.torch);
  state.calls_done = 0;
  const NoGrad no_grad(*state.torch, !program.calls.empty());
  for (const StepPlan& step : program.steps) {
    switch (step.kind) {
      case StepPlan::kAllocate: {
        const Timed timed(timer, TENSORD_STEP_MEMORY, 0);
        TENSORD_TRY(AllocateBuffer(state, step.index));
        break;
      }
      case StepPlan::kLaunch: {
        const Timed timed(timer, TENSORD_STEP_LAUNCH, step.index);
        const ProfiledRange range(*state.torch, profiled, program.launches[step.index].label);
        TENSORD_TRY(program.device->Launch(state, step.index));
        break;
      }
      case StepPlan::kCall:
        TENSORD_TRY(DoCall(state, step.index, profiled, timer));
        break;
      case StepPlan::kFree: {
        const Timed timed(timer, TENSORD_STEP_MEMORY, 0);
        FreeBuffer(state, step.index);
        break;
      }
      case StepPlan::kRelease: {
        const Timed timed(timer, TENSORD_STEP_MEMORY, 0);
        ReleaseInput(state, step.index);
        break;
      }
      case StepPlan::kZeroFill: {
        const Timed timed(timer, TENSORD_STEP_ZERO_FILL, step.index);
        TENSORD_TRY(DoZeroFill(state, step.index));
        break;
      }
      case StepPlan::kBeginWrite:
        if (!state.realigned.empty()) [[unlikely]]
          GiveCopy(state, step.index);
        break;
    }
  }
  return TENSORD_OK;
}

TensordError RunStepsUntimed(CallState& state) {
  NoTimer none;
  return RunSteps(state, none);
}

// Apart from the way of a run that nobody times.
[[gnu::noinline, gnu::cold]] TensordError RunStepsTimed(CallState& state, RunTimer& timer) {
  return timer.Bind(state) ? RunSteps(state, timer) : RunStepsUntimed(state);
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

TensordError Run(const TensordProgram& program, TensordValue* inputs, TensordValue* outputs) {
  const std::unique_ptr<RunTimer> timer = RunTimer::Start();
  CallLease lease(program);
  CallState& state = *lease;
  state.inputs = inputs;
  TENSORD_TRY(BindInputs(state));
  DeviceCall device(state);
  TENSORD_TRY(device.Begin());
  TENSORD_TRY(BindBuffers(state));
  // From the first step on an input may have changed, so whatever fails is the caller's to see: it
  // must not be taken for a call that can be made again.
  TensordError code = TENSORD_OK;
  try {
    code = timer == nullptr ? RunStepsUntimed(state) : RunStepsTimed(state, *timer);
    if (code == TENSORD_OK && !state.realigned.empty()) code = RestoreInputs(state);
    if (code == TENSORD_OK) code = MakeOutputs(state, outputs);
  } catch (const std::exception& error) {
    code = Fail(TENSORD_OPERATOR, error.what());
  }
  if (timer != nullptr && code == TENSORD_OK) [[unlikely]]
    timer->Finish();
  const bool has_own_exception = code == TENSORD_OUT_OF_MEMORY || code == TENSORD_INDEX;
  return code == TENSORD_OK || has_own_exception ? code : TENSORD_OPERATOR;
}

TensordError WorkspaceOf(const TensordProgram& program, const TensordValue* inputs, int64_t* whole,
                         int64_t* least) {
  *whole = *least = 0;
  if (!program.uses_workspace || program.device_type == kTorchCpu) return TENSORD_OK;
  CallLease lease(program);
  CallState& state = *lease;
  std::vector<TensordValue> copy(inputs, inputs + program.inputs.size());
  state.inputs = copy.data();
  TENSORD_TRY(BindInputs(state));
  *least = state.values[program.workspace_bytes];
  *whole = *least + state.values[program.standalone_bytes];
  return TENSORD_OK;
}

}  // namespace tensord::runtime
