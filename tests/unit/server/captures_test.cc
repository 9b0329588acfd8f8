// SPDX-License-Identifier: Apache-2.0
#include "server/frames/captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace tensord::server {
namespace captures_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const ProcessLife kHolder{1001, "elsewhere", 0}, kOther{1002, "elsewhere", 0};

class CapturesTest : public ::testing::Test {
 protected:
  Captures<int>::Asked Ask(int waiter, const ProcessLife& process = kOther,
                           absl::Duration wait = absl::Seconds(100)) {
    return captures_.Ask("place", process, now_ + wait, waiter, now_);
  }

  Captures<int> captures_{absl::Seconds(30), /*most=*/3};
  const absl::Time now_ = absl::Now();
};

TEST_F(CapturesTest, TheFirstCapturesAndOthersWait) {
  const auto first = Ask(1, kHolder);
  EXPECT_NE(first.capture, 0u);
  EXPECT_FALSE(first.waits);
  const auto second = Ask(2);
  EXPECT_EQ(second.capture, 0u);
  EXPECT_TRUE(second.waits);
  EXPECT_NE(captures_.Ask("another", kOther, now_, 3, now_).capture, 0u);
  EXPECT_THAT(captures_.Waiting("place"), ElementsAre(2));
}

TEST_F(CapturesTest, PassesToOneAfterTheOther) {
  const uint64_t first = Ask(1, kHolder).capture;
  Ask(2);
  Ask(3);
  EXPECT_FALSE(captures_.Pass("place", now_).has_value());
  EXPECT_EQ(captures_.End(first), "place");
  EXPECT_EQ(captures_.End(first), std::nullopt);
  const auto passed = captures_.Pass("place", now_);
  ASSERT_TRUE(passed.has_value());
  EXPECT_EQ(passed->waiter, 2);
  EXPECT_NE(passed->capture, first);
  EXPECT_FALSE(captures_.Pass("place", now_).has_value());
  EXPECT_THAT(captures_.Waiting("place"), ElementsAre(3));
}

TEST_F(CapturesTest, ARenewedCaptureLastsLonger) {
  const uint64_t first = Ask(1, kHolder).capture;
  EXPECT_TRUE(captures_.Renew(first, now_ + absl::Seconds(20)));
  EXPECT_EQ(captures_.TakeDue(now_ + absl::Seconds(40)).lapsed, 0u);
  const auto due = captures_.TakeDue(now_ + absl::Seconds(51));
  EXPECT_EQ(due.lapsed, 1u);
  EXPECT_THAT(due.places, IsEmpty());
  EXPECT_THAT(due.left, ElementsAre("place")) << "nobody waits for it";
  EXPECT_FALSE(captures_.Renew(first, now_ + absl::Seconds(52)));
}

TEST_F(CapturesTest, WaiterIsTakenOnce) {
  Ask(1, kHolder);
  Ask(2);
  EXPECT_TRUE(captures_.Take("place", 2));
  EXPECT_FALSE(captures_.Take("place", 2));
  EXPECT_THAT(captures_.Waiting("place"), IsEmpty());
}

TEST_F(CapturesTest, ThreadsOfOneProcessDoNotWaitForEachOther) {
  Ask(1, kHolder);
  const auto same = Ask(2, kHolder);
  EXPECT_EQ(same.capture, 0u);
  EXPECT_FALSE(same.waits);
  // The same number on another host is another process.
  EXPECT_TRUE(Ask(3, {kHolder.pid, "a third place", 0}).waits);
}

TEST_F(CapturesTest, NobodyWaitsWithoutTimeOrRoom) {
  Ask(1, kHolder);
  EXPECT_FALSE(Ask(2, kOther, absl::ZeroDuration()).waits);
  for (int waiter = 2; waiter < 5; ++waiter) EXPECT_TRUE(Ask(waiter).waits);
  EXPECT_FALSE(Ask(5).waits);
}

TEST_F(CapturesTest, SoManyCapturesAreUnderWay) {
  const auto capture = [&](const char* place) {
    return captures_.Ask(place, kHolder, now_, 1, now_).capture;
  };
  EXPECT_NE(capture("a"), 0u);
  EXPECT_NE(capture("b"), 0u);
  const uint64_t last = capture("c");
  EXPECT_NE(last, 0u);
  EXPECT_EQ(capture("d"), 0u);
  captures_.End(last);
  EXPECT_NE(capture("d"), 0u);
}

TEST_F(CapturesTest, LeaseEnds) {
  const uint64_t first = Ask(1, kHolder).capture;
  Ask(2);
  EXPECT_EQ(captures_.TakeDue(now_ + absl::Seconds(29)).lapsed, 0u);
  const auto due = captures_.TakeDue(now_ + absl::Seconds(31));
  EXPECT_EQ(due.lapsed, 1u);
  EXPECT_THAT(due.places, ElementsAre("place"));
  EXPECT_THAT(due.late, IsEmpty());
  EXPECT_EQ(captures_.End(first), std::nullopt);
  EXPECT_EQ(captures_.Pass("place", now_)->waiter, 2);
}

TEST_F(CapturesTest, LeaseOfAPlaceWhereNobodyWaitsEndsToo) {
  EXPECT_NE(Ask(1, kHolder).capture, 0u);
  const auto due = captures_.TakeDue(now_ + absl::Seconds(31));
  EXPECT_EQ(due.lapsed, 1u);
  EXPECT_THAT(due.places, IsEmpty());
}

TEST_F(CapturesTest, WaitingEnds) {
  Ask(1, kHolder);
  Ask(2, kOther, absl::Seconds(1));
  Ask(3, kOther, absl::Seconds(5));
  EXPECT_THAT(captures_.TakeDue(now_ + absl::Seconds(2)).late, ElementsAre(2));
  EXPECT_THAT(captures_.Waiting("place"), ElementsAre(3));
}

// A child that waits to be killed.
pid_t Child() {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  return pid;
}

TEST_F(CapturesTest, EndsWithItsProcess) {
  const pid_t pid = Child();
  const ProcessLife holder = ProcessLife::Of(static_cast<uint32_t>(pid), "");
  EXPECT_NE(holder.started, 0u);
  Ask(1, holder);
  Ask(2);
  EXPECT_EQ(captures_.TakeDue(now_).lapsed, 0u);
  kill(pid, SIGKILL);
  // It is dead before it is reaped.
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(holder.MayLive());
  EXPECT_THAT(captures_.TakeDue(now_).places, ElementsAre("place"));
  waitpid(pid, nullptr, 0);
  EXPECT_FALSE(holder.MayLive());
}

TEST_F(CapturesTest, ReusedNumberIsNoLife) {
  ProcessLife self = ProcessLife::Of(static_cast<uint32_t>(getpid()), "");
  EXPECT_TRUE(self.MayLive());
  self.started -= 1;
  EXPECT_FALSE(self.MayLive());
}

TEST_F(CapturesTest, OfProcessesThatAreNotSeenNothingIsKnown) {
  EXPECT_TRUE(ProcessLife::Of(static_cast<uint32_t>(getpid()), "another host").MayLive());
  EXPECT_EQ(ProcessLife::Of(static_cast<uint32_t>(getpid()), "another host").started, 0u);
  EXPECT_TRUE(ProcessLife::Of(0, "").MayLive());
  EXPECT_FALSE(ProcessLife::Of(0, "").Is(ProcessLife::Of(0, "")));
}

TEST_F(CapturesTest, WhoLooksIsToldOfWhatIsDueAndOfTheEnd) {
  std::optional<Captures<int>::Due> due;
  std::thread looks([&] {
    while ((due = captures_.AwaitDue()).has_value() && due->late.empty()) {
    }
    EXPECT_TRUE(due.has_value());
    while (captures_.AwaitDue().has_value()) {
    }
  });
  captures_.Ask("place", kHolder, absl::Now(), 1);
  captures_.Ask("place", kOther, absl::Now() + absl::Milliseconds(20), 2);
  captures_.Ask("place", kOther, absl::Now() + absl::Seconds(100), 3);
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_THAT(captures_.Stop(), ElementsAre(3));
  looks.join();
  EXPECT_EQ(Ask(4).capture, 0u);
  EXPECT_FALSE(Ask(4).waits);
}

}  // namespace captures_test
}  // namespace tensord::server
