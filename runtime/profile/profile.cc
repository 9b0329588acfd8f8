// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/profile.h"

#include <pthread.h>

#include <mutex>
#include <utility>

namespace tensord::runtime {
namespace internal {
std::atomic<bool> profiling{false};
}  // namespace internal
namespace {

struct Profile {
  std::mutex mutex;
  std::vector<RunRecord> runs;  // not taken yet
  size_t steps = 0;             // of `runs`
  uint64_t dropped = 0;         // runs without room
  // What was taken last, and its form in C.
  std::vector<RunRecord> taken;
  std::vector<TensordRunTimes> times;

  void Clear() {
    runs.clear();
    taken.clear();
    times.clear();
    steps = dropped = 0;
  }
};

// Never deleted: runs may end while the process does.
std::atomic<Profile*>& ThisProfile() {
  static auto* profile = [] {
    // In a child of a fork nobody profiles, and a thread that it lacks may hold the lock.
    pthread_atfork(nullptr, nullptr, [] {
      internal::profiling.store(false, std::memory_order_relaxed);
      ThisProfile().store(new Profile, std::memory_order_relaxed);
    });
    return new std::atomic<Profile*>(new Profile);
  }();
  return *profile;
}

// Gives a run's steps their times. False: its clock failed.
bool ReadClock(RunRecord& run) {
  std::vector<StepInterval> intervals;
  const std::unique_ptr<StepClock> clock = std::move(run.clock);
  if (!clock->Read(&intervals) || intervals.size() != run.steps.size()) return false;
  // A device's clock begins with the run's first step, the host's with the run.
  const uint64_t origin = run.device < 0 ? run.begin : 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    run.steps[i].begin = intervals[i].begin - origin;
    run.steps[i].nanoseconds = intervals[i].end - intervals[i].begin;
  }
  return true;
}

}  // namespace

TensordError BeginProfile() {
  Profile& profile = *ThisProfile().load();
  const std::lock_guard lock(profile.mutex);
  if (IsProfiling()) return Fail(TENSORD_INVALID, "this process is being profiled already");
  profile.Clear();
  internal::profiling.store(true, std::memory_order_relaxed);
  return TENSORD_OK;
}

TensordError TakeProfile(const TensordRunTimes** runs, size_t* count, uint64_t* dropped) {
  *runs = nullptr;
  *count = *dropped = 0;
  if (!IsProfiling()) return Fail(TENSORD_INVALID, "this process is not being profiled");
  Profile& profile = *ThisProfile().load();
  std::vector<RunRecord> taken;
  {
    const std::lock_guard lock(profile.mutex);
    taken = std::exchange(profile.runs, {});
    profile.steps = 0;
    *dropped = std::exchange(profile.dropped, 0);
  }
  // Not under the lock: a device may have much to do yet.
  *dropped += std::erase_if(taken, [](RunRecord& run) { return !ReadClock(run); });
  const std::lock_guard lock(profile.mutex);
  profile.taken = std::move(taken);
  profile.times.clear();
  for (const RunRecord& run : profile.taken) {
    profile.times.push_back({run.program, run.begin, run.end, run.symbols.data(),
                             run.symbols.size(), run.steps.data(), run.steps.size(), run.device});
  }
  *runs = profile.times.data();
  *count = profile.times.size();
  return TENSORD_OK;
}

size_t KeptSteps() {
  Profile& profile = *ThisProfile().load();
  const std::lock_guard lock(profile.mutex);
  return profile.steps;
}

bool EndProfile() {
  if (!IsProfiling()) return false;
  Profile& profile = *ThisProfile().load();
  const std::lock_guard lock(profile.mutex);
  internal::profiling.store(false, std::memory_order_relaxed);
  profile.Clear();
  return true;
}

void AddRun(RunRecord record) {
  Profile& profile = *ThisProfile().load();
  const std::lock_guard lock(profile.mutex);
  if (!IsProfiling()) return;
  if (record.steps.size() > kMostProfiledSteps - profile.steps) {
    ++profile.dropped;
    return;
  }
  profile.steps += record.steps.size();
  profile.runs.push_back(std::move(record));
}

}  // namespace tensord::runtime
