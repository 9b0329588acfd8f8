// SPDX-License-Identifier: Apache-2.0
// Times the steps of one run while the process is profiled.
#ifndef TENSORD_RUNTIME_PROFILE_RUN_TIMER_H_
#define TENSORD_RUNTIME_PROFILE_RUN_TIMER_H_

#include <cstdint>
#include <memory>

#include "runtime/call/call_state.h"
#include "runtime/profile/profile.h"

namespace tensord::runtime {

// For a run that is not timed: nothing.
struct NoTimer {
  struct Step {
    Step(NoTimer&, TensordStepKind, uint32_t) {}
  };
};

class RunTimer {
 public:
  // From the run's beginning. Null: nobody profiles, or the run lies within one that is timed, of
  // whose step it is a part.
  static std::unique_ptr<RunTimer> Start() {
    if (IsProfiling()) [[unlikely]]
      return StartTimed();
    return nullptr;
  }
  ~RunTimer();
  RunTimer(const RunTimer&) = delete;
  RunTimer& operator=(const RunTimer&) = delete;

  // Before the first step, between the device's Begin and End. False: the run is captured as a CUDA
  // graph, and has no place in the profile.
  bool Bind(CallState& state);

  // A step, from here to its destructor. `number`: of TensordStepTime.
  class Step {
   public:
    Step(RunTimer& timer, TensordStepKind kind, uint32_t number);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    StepClock* const clock_;  // null: it is not timed
  };

  // Behind the run, which has succeeded: it is part of the profile. Without this it is dropped.
  void Finish();

 private:
  RunTimer();
  [[gnu::cold]] static std::unique_ptr<RunTimer> StartTimed();

  RunRecord record_;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROFILE_RUN_TIMER_H_
