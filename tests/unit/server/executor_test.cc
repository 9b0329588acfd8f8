// SPDX-License-Identifier: Apache-2.0
#include "server/compile/executor.h"

#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <atomic>

namespace tensord::server {
namespace executor_test {

TEST(Executor, RunsAsManyAsAskedAtOnceOnFewerCores) {
  constexpr int kThreads = 12;
  absl::Mutex mutex;
  int running = 0;
  bool all = false;
  Executor executor(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    executor.Run([&] {
      absl::MutexLock lock(&mutex);
      ++running;
      const auto everybody = [&] { return running == kThreads; };
      all = mutex.AwaitWithTimeout(absl::Condition(&everybody), absl::Seconds(30));
    });
  }
  absl::MutexLock lock(&mutex);
  EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30)));
}

TEST(Executor, RunsNoMoreThanAskedAtOnce) {
  std::atomic<int> running = 0, most = 0, done = 0;
  {
    Executor executor(3);
    for (int i = 0; i < 60; ++i) {
      executor.Run([&] {
        const int now = ++running;
        int before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        absl::SleepFor(absl::Milliseconds(1));
        --running;
        ++done;
      });
    }
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_LE(most, 3);
  }
  EXPECT_EQ(done, 60);
}

TEST(Executor, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> done = 0;
  absl::Notification first;
  {
    Executor executor(1);
    executor.Run([&] {
      first.WaitForNotification();
      ++done;
    });
    for (int i = 0; i < 20; ++i) executor.Run([&] { ++done; });
    EXPECT_EQ(done, 0);
    first.Notify();
  }
  EXPECT_EQ(done, 21);
}

TEST(Executor, ATaskMayQueueMore) {
  std::atomic<int> done = 0;
  {
    Executor executor(2);
    executor.Run([&] {
      for (int i = 0; i < 10; ++i) executor.Run([&] { ++done; });
    });
  }
  EXPECT_EQ(done, 10);
}

}  // namespace executor_test
}  // namespace tensord::server
