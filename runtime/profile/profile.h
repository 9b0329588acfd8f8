// SPDX-License-Identifier: Apache-2.0
// The profile of this process: which runs of programs were timed while it went on.
#ifndef TENSORD_RUNTIME_PROFILE_PROFILE_H_
#define TENSORD_RUNTIME_PROFILE_PROFILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/program/step_clock.h"
#include "tensord/runtime.h"

namespace tensord::runtime {

// Steps that are kept until somebody takes them.
inline constexpr size_t kMostProfiledSteps = size_t{1} << 18;

// A run of a program that has returned. Its steps have times once its clock was read.
struct RunRecord {
  uint64_t program = 0;
  int32_t device = -1;
  uint64_t begin = 0, end = 0;
  std::vector<int64_t> symbols;
  std::vector<TensordStepTime> steps;
  std::unique_ptr<StepClock> clock;  // null: it was read
};

namespace internal {
extern std::atomic<bool> profiling;
}  // namespace internal

// What a run costs when nobody profiles.
inline bool IsProfiling() { return internal::profiling.load(std::memory_order_relaxed); }

// As the functions of the C interface.
TensordError BeginProfile();
TensordError TakeProfile(const TensordRunTimes** runs, size_t* count, uint64_t* dropped);
size_t KeptSteps();
bool EndProfile();  // whether there was one

// Keeps a run while a profile goes on and has room.
void AddRun(RunRecord record);

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROFILE_PROFILE_H_
