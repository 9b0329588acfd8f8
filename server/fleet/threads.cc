// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/threads.h"

#include <absl/time/clock.h>

#include <utility>

namespace tensord::fleet {

Threads::Threads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  threads_.emplace_back([this] { KeepTime(); });
}

void Threads::Run(Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(task));
  changed_.SignalAll();
}

void Threads::RunAt(absl::Time time, Task task) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return;
  timed_.emplace(time, std::move(task));
  changed_.SignalAll();
}

void Threads::Work() {
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      while (queue_.empty() && !stopped_) changed_.Wait(&mutex_);
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
        changed_.WaitWithDeadline(&mutex_,
                                  timed_.empty() ? absl::InfiniteFuture() : timed_.begin()->first);
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
    changed_.SignalAll();
  }
  absl::MutexLock lock(&joining_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace tensord::fleet
