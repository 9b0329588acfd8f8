// SPDX-License-Identifier: Apache-2.0
// Remembers graphs that cannot be compiled whoever asks: for a short time the malformed and the
// unsupported, and longer those that took more than a request's budget or crashed the compiler
// twice. What may pass (one crash, a worker that was killed, no host compiler, no room) is not
// remembered.
#ifndef TENSORD_SERVER_COMPILE_FAILURES_H_
#define TENSORD_SERVER_COMPILE_FAILURES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <optional>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "server/pool/worker_process.h"

namespace tensord::server {

class RecentFailures {
 public:
  // keep: of what the caller did wrong; keep_deadly: of what workers died of.
  explicit RecentFailures(absl::Duration keep = absl::Seconds(30),
                          absl::Duration keep_deadly = absl::Minutes(10))
      : keep_(keep), keep_deadly_(keep_deadly) {}

  void Add(const std::string& key, const absl::Status& status) {
    const bool rejected = absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
    if (!rejected && !IsOverBudget(status) && !IsCrash(status)) return;
    absl::MutexLock lock(&mutex_);
    if (failures_.size() >= kMax) failures_.clear();
    Failure& failure = failures_[key];
    failure.counts = rejected || IsOverBudget(status) || ++failure.times > 1;
    failure.until = absl::Now() + (rejected ? keep_ : keep_deadly_);
    failure.status = status;
  }
  std::optional<absl::Status> Find(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    const auto found = failures_.find(key);
    if (found == failures_.end()) return std::nullopt;
    const Failure& failure = found->second;
    if (failure.until > absl::Now()) {
      return failure.counts ? std::optional(failure.status) : std::nullopt;
    }
    failures_.erase(found);
    return std::nullopt;
  }

 private:
  struct Failure {
    absl::Time until;
    absl::Status status;
    int times = 0;        // that it crashed
    bool counts = false;  // is an answer
  };
  static constexpr size_t kMax = 1024;
  const absl::Duration keep_, keep_deadly_;
  absl::Mutex mutex_;
  std::unordered_map<std::string, Failure> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_FAILURES_H_
