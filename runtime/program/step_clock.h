// SPDX-License-Identifier: Apache-2.0
// The clock by which the steps of one profiled run are timed: the host's, or the device's own.
#ifndef TENSORD_RUNTIME_PROGRAM_STEP_CLOCK_H_
#define TENSORD_RUNTIME_PROGRAM_STEP_CLOCK_H_

#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

namespace tensord::runtime {

// CLOCK_MONOTONIC, which the processes of a host share.
inline uint64_t HostNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

struct StepInterval {
  uint64_t begin = 0, end = 0;  // nanoseconds of the clock, from any time on
};

// Of one run, by the thread that runs it.
class StepClock {
 public:
  virtual ~StepClock() = default;
  // Around a step, in the order of the steps; no step lies within another one.
  virtual void Begin() = 0;
  virtual void End() = 0;
  // Whether it times what the host alone does: allocations and their ends.
  virtual bool TimesMemory() const = 0;
  // Behind the run, once, in any thread: waits until the steps have ended, and gives an interval
  // for each of them. False: the clock failed, and nothing is known.
  virtual bool Read(std::vector<StepInterval>* intervals) = 0;
};

// Where there is none that works: a run that it times is missing in the profile, and counted.
class NoClock final : public StepClock {
 public:
  void Begin() override {}
  void End() override {}
  bool TimesMemory() const override { return false; }
  bool Read(std::vector<StepInterval>*) override { return false; }
};

class HostClock final : public StepClock {
 public:
  void Begin() override { intervals_.push_back({HostNanoseconds(), 0}); }
  void End() override { intervals_.back().end = HostNanoseconds(); }
  bool TimesMemory() const override { return true; }
  bool Read(std::vector<StepInterval>* intervals) override {
    *intervals = std::move(intervals_);
    return true;
  }

 private:
  std::vector<StepInterval> intervals_;
};

}  // namespace tensord::runtime

#endif  // TENSORD_RUNTIME_PROGRAM_STEP_CLOCK_H_
