// SPDX-License-Identifier: Apache-2.0
// Remembers, for a short time, graphs that cannot be compiled whoever asks: malformed or
// unsupported. Failures that may pass (a crash, no host compiler, no room) are never remembered.
#ifndef TENSORD_SERVER_COMPILE_FAILURES_H_
#define TENSORD_SERVER_COMPILE_FAILURES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/status.h"

namespace tensord::server {

class RecentFailures {
 public:
  explicit RecentFailures(absl::Duration keep = absl::Seconds(30)) : keep_(keep) {}

  void Add(const std::string& key, const absl::Status& status) {
    if (!absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) return;
    absl::MutexLock lock(&mutex_);
    if (failures_.size() >= kMax) failures_.clear();
    failures_[key] = {absl::Now() + keep_, status};
  }
  std::optional<absl::Status> Find(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    const auto found = failures_.find(key);
    if (found == failures_.end()) return std::nullopt;
    if (found->second.first > absl::Now()) return found->second.second;
    failures_.erase(found);
    return std::nullopt;
  }

 private:
  static constexpr size_t kMax = 1024;
  const absl::Duration keep_;
  absl::Mutex mutex_;
  std::unordered_map<std::string, std::pair<absl::Time, absl::Status>> failures_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_FAILURES_H_
