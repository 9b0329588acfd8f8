// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/watch_stats.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <grpcpp/alarm.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "server/monitoring/growth.h"

namespace tensord::server {
namespace {

constexpr absl::Duration kUsual = absl::Seconds(1);
constexpr absl::Duration kShortest = absl::Milliseconds(100);
constexpr absl::Duration kLongest = absl::Hours(1);

// At any moment either a message is on its way or the alarm is set, whose end is what ends the
// call.
class Watch : public grpc::ServerWriteReactor<v1::StatsUpdate> {
 public:
  Watch(absl::Duration interval, std::function<void(v1::Stats*)> read)
      : interval_(interval), read_(std::move(read)) {
    Send();
  }

  void OnWriteDone(bool ok) override {
    if (!ok || !SetAlarm()) End();
  }
  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (alarm_ != nullptr) alarm_->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  void Send() {
    const absl::Time now = absl::Now();
    v1::Stats stats;
    read_(&stats);
    if (update_.has_stats()) {
      *update_.mutable_growth() = Growth(stats, update_.stats());
      update_.set_elapsed_nanoseconds(
          static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Nanoseconds(now - sent_))));
    }
    *update_.mutable_stats() = std::move(stats);
    sent_ = now;
    StartWrite(&update_);
  }

  // False: the client has gone.
  bool SetAlarm() {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return false;
    // Another one each time: the callback of the last may still be returning.
    alarm_ = std::make_unique<grpc::Alarm>();
    alarm_->Set(absl::ToChronoTime(sent_ + interval_), [this](bool rang) {
      if (rang) return Send();
      End();
    });
    return true;
  }

  void End() { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone")); }

  const absl::Duration interval_;
  const std::function<void(v1::Stats*)> read_;
  v1::StatsUpdate update_;
  absl::Time sent_;
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Duration WatchInterval(const v1::WatchStatsRequest& request) {
  if (request.interval_milliseconds() == 0) return kUsual;
  return std::clamp(absl::Milliseconds(request.interval_milliseconds()), kShortest, kLongest);
}

grpc::ServerWriteReactor<v1::StatsUpdate>* NewWatch(absl::Duration interval,
                                                    std::function<void(v1::Stats*)> read) {
  return new Watch(interval, std::move(read));
}

}  // namespace tensord::server
