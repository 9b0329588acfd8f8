// SPDX-License-Identifier: Apache-2.0
// What others can make happen as often as they like is logged now and then, with how often it was.
#ifndef TENSORD_SERVER_DAEMON_LOG_THROTTLE_H_
#define TENSORD_SERVER_DAEMON_LOG_THROTTLE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <cstdint>

namespace tensord::server {

class LogThrottle {
 public:
  explicit LogThrottle(absl::Duration pause = absl::Minutes(1)) : pause_(pause) {}

  // It happened, at `now`. How often since it was last to be said, this time included; 0: it is not
  // to be said, for less than the pause has gone by.
  uint64_t Count(absl::Time now) {
    absl::MutexLock lock(&mutex_);
    ++times_;
    if (now < next_) return 0;
    next_ = now + pause_;
    const uint64_t times = times_;
    times_ = 0;
    return times;
  }

 private:
  const absl::Duration pause_;
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t times_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_LOG_THROTTLE_H_
