// SPDX-License-Identifier: Apache-2.0
#include "server/compile/request_memory.h"

#include <algorithm>

#include "server/pool/stopping.h"

namespace tensord::server {

RequestMemory::Share RequestMemory::Take(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  held_ += bytes;
  return Share(this, bytes);
}

RequestMemory::Ticket RequestMemory::Ask(uint64_t bytes, Ready ready) {
  bool refused = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool waits = bytes > kSmall && (!waiting_.empty() || !Fits(bytes));
    refused = waits && stopped_;
    if (waits && !refused) {
      waiting_.push_back({next_, bytes, std::move(ready)});
      return next_++;
    }
    if (!refused) held_ += bytes;
  }
  if (refused) {
    ready(Stopping());
  } else {
    ready(Share(this, bytes));
  }
  return 0;
}

void RequestMemory::Cancel(Ticket ticket, const absl::Status& why) {
  Ready ready;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Waiting& other) { return other.ticket == ticket; });
    if (found == waiting_.end()) return;
    ready = std::move(found->ready);
    waiting_.erase(found);
  }
  ready(why);
  Replace(0, 0);  // those behind it may fit
}

void RequestMemory::Stop() {
  std::list<Waiting> refused;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    refused.swap(waiting_);
  }
  for (Waiting& waiting : refused) waiting.ready(Stopping());
}

uint64_t RequestMemory::held() const {
  absl::MutexLock lock(&mutex_);
  return held_;
}

void RequestMemory::Replace(uint64_t before, uint64_t after) {
  std::list<Waiting> fitting;
  {
    absl::MutexLock lock(&mutex_);
    held_ = held_ - before + after;
    while (!waiting_.empty() && Fits(waiting_.front().bytes)) {
      held_ += waiting_.front().bytes;
      fitting.splice(fitting.end(), waiting_, waiting_.begin());
    }
  }
  for (Waiting& waiting : fitting) waiting.ready(Share(this, waiting.bytes));
}

}  // namespace tensord::server
