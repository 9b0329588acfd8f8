// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/run_timer.h"

#include <utility>

namespace tensord::runtime {
namespace {

// This thread is within a run that is timed.
thread_local bool in_timed_run = false;

}  // namespace

std::unique_ptr<RunTimer> RunTimer::StartTimed() {
  if (in_timed_run) return nullptr;
  return std::unique_ptr<RunTimer>(new RunTimer);
}

RunTimer::RunTimer() {
  in_timed_run = true;
  record_.begin = HostNanoseconds();
}

RunTimer::~RunTimer() { in_timed_run = false; }

bool RunTimer::Bind(CallState& state) {
  const TensordProgram& program = *state.program;
  record_.clock = program.device->NewStepClock(state);
  if (record_.clock == nullptr) return false;
  record_.program = program.number;
  record_.device = program.device_type == kTorchCpu ? -1 : state.device_index;
  record_.symbols.assign(state.values, state.values + program.exprs.num_symbols());
  record_.steps.reserve(program.steps.size());
  return true;
}

RunTimer::Step::Step(RunTimer& timer, TensordStepKind kind, uint32_t number)
    : clock_(kind == TENSORD_STEP_MEMORY && !timer.record_.clock->TimesMemory()
                 ? nullptr
                 : timer.record_.clock.get()) {
  if (clock_ == nullptr) return;
  timer.record_.steps.push_back({static_cast<uint32_t>(kind), number, 0, 0});
  clock_->Begin();
}

RunTimer::Step::~Step() {
  if (clock_ != nullptr) clock_->End();
}

void RunTimer::Finish() {
  if (record_.clock == nullptr) return;
  record_.end = HostNanoseconds();
  AddRun(std::move(record_));
}

}  // namespace tensord::runtime
