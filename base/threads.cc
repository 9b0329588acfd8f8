// SPDX-License-Identifier: Apache-2.0
#include "base/threads.h"

#include <absl/time/clock.h>

#include <utility>

namespace tensord {

Threads::Threads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  threads_.emplace_back([this] { KeepTime(); });
}

void Threads::Run(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(task));
}

void Threads::RunAt(absl::Time time, Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  timed_.emplace(time, std::move(task));
}

void Threads::Work() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this] { return !queue_.empty() || stopped_; };
      mutex_.Await(absl::Condition(&has_work));
      if (stopped_) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

void Threads::KeepTime() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopped_ && (timed_.empty() || timed_.begin()->first > absl::Now())) {
        const absl::Time due = timed_.empty() ? absl::InfiniteFuture() : timed_.begin()->first;
        const auto is_earlier = [this, due] {
          return stopped_ || (!timed_.empty() && timed_.begin()->first < due);
        };
        mutex_.AwaitWithDeadline(absl::Condition(&is_earlier), due);
      }
      if (stopped_) return;
      task = std::move(timed_.begin()->second);
      timed_.erase(timed_.begin());
    }
    task();
  }
}

void Threads::Stop() {
  std::deque<Task> queue;  // tasks may hold what calls others when it goes: not under the lock
  std::multimap<absl::Time, Task> timed;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    queue.swap(queue_);
    timed.swap(timed_);
  }
  absl::MutexLock lock(&joining_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace tensord
