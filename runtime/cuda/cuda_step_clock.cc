// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_step_clock.h"

#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace tensord::runtime {
namespace {

// Events that no clock has, by the context that they were made in. Never deleted.
struct IdleEvents {
  std::mutex mutex;
  std::map<CuContext, std::vector<CuEvent>> by_context;
};
IdleEvents& Idle() {
  static auto* idle = new IdleEvents;
  return *idle;
}

// Another context of the thread's, where it has another one or none.
class ContextScope {
 public:
  ContextScope(const CudaDriver& driver, CuContext context) : driver_(driver) {
    switched_ = driver.get_context(&before_) == kCudaSuccess && before_ != context &&
                driver.set_context(context) == kCudaSuccess;
  }
  ~ContextScope() {
    if (switched_) driver_.set_context(before_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const CudaDriver& driver_;
  CuContext before_ = nullptr;
  bool switched_ = false;
};

class CudaStepClock final : public StepClock {
 public:
  CudaStepClock(const CudaDriver& driver, CuContext context, CuStream stream)
      : driver_(driver), context_(context), stream_(stream) {}
  ~CudaStepClock() override {
    IdleEvents& idle = Idle();
    const std::lock_guard lock(idle.mutex);
    std::vector<CuEvent>& events = idle.by_context[context_];
    events.insert(events.end(), events_.begin(), events_.end());
  }

  // Both events of a step are there from its begin on: End allocates nothing.
  void Begin() override { broken_ = broken_ || !Take() || !Take() || !Record(events_.end()[-2]); }
  void End() override { broken_ = broken_ || !Record(events_.back()); }
  bool TimesMemory() const override { return false; }

  bool Read(std::vector<StepInterval>* intervals) override {
    if (broken_) return false;
    if (events_.empty()) return true;
    const ContextScope scope(driver_, context_);
    if (driver_.synchronize_event(events_.back()) != kCudaSuccess) return false;
    intervals->resize(events_.size() / 2);
    for (size_t i = 0; i < intervals->size(); ++i) {
      if (!Since(events_[2 * i], &(*intervals)[i].begin) ||
          !Since(events_[2 * i + 1], &(*intervals)[i].end)) {
        return false;
      }
    }
    return true;
  }

 private:
  bool Record(CuEvent event) { return driver_.record_event(event, stream_) == kCudaSuccess; }

  // One more event.
  bool Take() {
    constexpr unsigned kTimed = 0;  // CU_EVENT_DEFAULT
    CuEvent event = nullptr;
    {
      IdleEvents& idle = Idle();
      const std::lock_guard lock(idle.mutex);
      std::vector<CuEvent>& events = idle.by_context[context_];
      if (!events.empty()) {
        event = events.back();
        events.pop_back();
      }
    }
    if (event == nullptr && driver_.create_event(&event, kTimed) != kCudaSuccess) return false;
    events_.push_back(event);
    return true;
  }

  // Nanoseconds from the run's first event on.
  bool Since(CuEvent event, uint64_t* nanoseconds) const {
    constexpr double kNanosecondsOfMillisecond = 1e6;
    float milliseconds = 0;
    if (driver_.elapsed_time(&milliseconds, events_.front(), event) != kCudaSuccess) return false;
    *nanoseconds = static_cast<uint64_t>(
        std::llround(std::fmax(milliseconds, 0.0F) * kNanosecondsOfMillisecond));
    return true;
  }

  const CudaDriver& driver_;
  const CuContext context_;
  const CuStream stream_;
  std::vector<CuEvent> events_;  // before and behind each step, in turn
  bool broken_ = false;
};

}  // namespace

std::unique_ptr<StepClock> NewCudaStepClock(const CudaDriver& driver, CuStream stream) {
  if (driver.create_event == nullptr || driver.destroy_event == nullptr ||
      driver.record_event == nullptr || driver.synchronize_event == nullptr ||
      driver.elapsed_time == nullptr || driver.is_capturing == nullptr) {
    return std::make_unique<NoClock>();
  }
  int capturing = 0;
  CuContext context = nullptr;
  if (driver.is_capturing(stream, &capturing) != kCudaSuccess) return std::make_unique<NoClock>();
  if (capturing != 0) return nullptr;
  if (driver.get_context(&context) != kCudaSuccess) return std::make_unique<NoClock>();
  return std::make_unique<CudaStepClock>(driver, context, stream);
}

void DestroyIdleEvents() {
  IdleEvents& idle = Idle();
  std::map<CuContext, std::vector<CuEvent>> all;
  {
    const std::lock_guard lock(idle.mutex);
    all = std::exchange(idle.by_context, {});
  }
  const CudaDriver* driver = nullptr;
  if (all.empty() || GetCudaDriver(&driver) != TENSORD_OK) return;
  for (const auto& [context, events] : all) {
    const ContextScope scope(*driver, context);
    for (const CuEvent event : events) driver->destroy_event(event);
  }
}

}  // namespace tensord::runtime
