// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/last_resort.h"

#include <absl/synchronization/notification.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "server/daemon/daemon.h"

namespace tensord::server {
namespace {

// The log may lie on the disk that hangs.
constexpr absl::Duration kLog = absl::Seconds(1);

}  // namespace

LastResort::LastResort(absl::Duration limit, std::function<void()> release)
    : limit_(limit), release_(std::move(release)), thread_([this] { Wait(); }) {}

LastResort::~LastResort() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

void LastResort::Wait() {
  {
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopped_), limit_)) return;
  }
  release_();
  const auto logged = std::make_shared<absl::Notification>();
  std::thread([logged, seconds = absl::ToInt64Seconds(limit_)] {
    spdlog::warn("event=stopped why=\"something hangs, which is left behind\" seconds={}", seconds);
    logged->Notify();
  }).detach();
  logged->WaitForNotificationWithTimeout(kLog);
  _exit(kExitOk);
}

}  // namespace tensord::server
