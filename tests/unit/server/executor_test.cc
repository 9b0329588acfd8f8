// SPDX-License-Identifier: Apache-2.0
#include "server/compile/executor.h"

#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

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
  absl::Notification begun, first;
  {
    Executor executor(1);
    executor.Run([&] {
      begun.Notify();
      first.WaitForNotification();
      ++done;
    });
    begun.WaitForNotification();  // of tasks that are queued any may be the first
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

// oneTBB uses the memory of a task that has run for one of another thread: what a task holds must
// not lie there, or ThreadSanitizer takes its end for a race with the next one's making.
TEST(Executor, WhatTasksHoldIsApartFromTasksBeforeThem) {
  constexpr int kThreads = 4, kTasks = 200;
  std::atomic<int> sum = 0;
  {
    Executor executor(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < kTasks; ++i) {
          executor.Run([&sum, held = std::make_shared<int>(1)] { sum += *held; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(sum, kThreads * kTasks);
}

}  // namespace executor_test
}  // namespace tensord::server
