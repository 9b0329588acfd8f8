// SPDX-License-Identifier: Apache-2.0
// Calls that send the same kind of message again and again, without a thread that waits.
#ifndef TENSORD_SERVER_DAEMON_WATCH_H_
#define TENSORD_SERVER_DAEMON_WATCH_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace tensord::server {

// What a request's interval_milliseconds asks for, within limits.
inline absl::Duration WatchInterval(uint32_t interval_milliseconds) {
  if (interval_milliseconds == 0) return absl::Seconds(1);
  return std::clamp(absl::Milliseconds(interval_milliseconds), absl::Milliseconds(100),
                    absl::Hours(1));
}

// Sends what `fill` makes of the message, which is the last one at first, at once and then every
// `interval` until the client leaves. `since`: the time since the message before, zero for the
// first. gRPC deletes it.
//
// At any moment either a message is on its way or the alarm is set, whose end is what ends the
// call.
template <class Update>
class Watch : public grpc::ServerWriteReactor<Update> {
 public:
  using Fill = std::function<void(Update* update, absl::Duration since)>;

  Watch(absl::Duration interval, Fill fill) : interval_(interval), fill_(std::move(fill)) {
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
    fill_(&update_, sent_ == absl::InfinitePast() ? absl::ZeroDuration() : now - sent_);
    sent_ = now;
    this->StartWrite(&update_);
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

  void End() { this->Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the client has gone")); }

  const absl::Duration interval_;
  const Fill fill_;
  Update update_;
  absl::Time sent_ = absl::InfinitePast();
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_WATCH_H_
