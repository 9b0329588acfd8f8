// SPDX-License-Identifier: Apache-2.0
// A circuit breaker: after several failures one after the other nobody is sent to a tier any more,
// but for a probe now and then, which nobody waits for.
#ifndef TENSORD_SERVER_FLEET_BREAKER_H_
#define TENSORD_SERVER_FLEET_BREAKER_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tensord::fleet {

struct BreakerOptions {
  int failures = 3;                         // that open it
  absl::Duration first = absl::Seconds(1);  // until the first probe; twice as long each time
  absl::Duration longest = absl::Seconds(60);
};

// Every function may be called from several threads.
class Breaker {
 public:
  explicit Breaker(BreakerOptions options) : options_(options), pause_(options.first) {}

  bool IsOpen() const {
    absl::MutexLock lock(&mutex_);
    return open_;
  }
  // Somebody was answered. An answer to who asked before it opened does not close it: probes do.
  void Succeeded() {
    absl::MutexLock lock(&mutex_);
    if (open_) return;
    failed_ = 0;
    pause_ = options_.first;
    why_.clear();
  }
  // Somebody was not. When that opens it: after what time the caller is to probe.
  std::optional<absl::Duration> Failed(std::string why) {
    absl::MutexLock lock(&mutex_);
    why_ = std::move(why);
    if (open_ || ++failed_ < options_.failures) return std::nullopt;
    open_ = true;
    ++opened_;
    return NextPause();
  }
  // What a probe found: empty, and it closes; or why it failed, and when the next one is due. A
  // tier that answers probes and nobody else opens it with its next failure, for longer.
  std::optional<absl::Duration> Probed(std::string why) {
    absl::MutexLock lock(&mutex_);
    if (why.empty()) {
      open_ = false;
      failed_ = options_.failures - 1;
      return std::nullopt;
    }
    why_ = std::move(why);
    return NextPause();
  }

  // The last failure since somebody was answered.
  std::string why() const {
    absl::MutexLock lock(&mutex_);
    return why_;
  }
  uint64_t opened() const {
    absl::MutexLock lock(&mutex_);
    return opened_;
  }

 private:
  absl::Duration NextPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::exchange(pause_, std::min(2 * pause_, options_.longest));
  }

  const BreakerOptions options_;
  mutable absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  int failed_ ABSL_GUARDED_BY(mutex_) = 0;  // one after the other
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  uint64_t opened_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_BREAKER_H_
