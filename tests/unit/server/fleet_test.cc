// SPDX-License-Identifier: Apache-2.0
// Who asks, who waits and for how long, over a tier that answers, lags, fails or lies.
#include "server/fleet/fleet.h"

#include <gmock/gmock.h>

#include <atomic>

#include "tensord/v1/stats.pb.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::fleet {
namespace fleet_test {

using ::testing::HasSubstr;

class FleetTest : public FleetFolderTest {
 protected:
  FleetTest() : server_(std::make_shared<FakeServer>()) {
    options_.answer = kLong;
    options_.breaker.first = absl::Milliseconds(50);
  }

  // A host of its own, over the one server.
  std::unique_ptr<Fleet> Host(const std::string& key = "key") {
    return std::make_unique<Fleet>(options_, std::make_unique<FakeTier>(server_), OpenKeys(key));
  }

  struct Answer {
    absl::Status status;
    absl::Notification done;
    std::string content;
    absl::Time at;
  };
  using AnswerPtr = std::shared_ptr<Answer>;
  AnswerPtr Ask(Fleet& host, bool lease = false, const Name& name = TestName()) {
    auto answer = std::make_shared<Answer>();
    Fleet::Query query;
    query.name = name;
    if (lease) query.lease = name;
    query.wait = wait_;
    query.take = [this, answer](const Parcel& parcel) {
      if (disk_ != nullptr) disk_->WaitForNotification();
      if (!parcel.complete) return absl::NotFoundError("gone");
      ++taken_;
      answer->content = *parcel.content;
      return take_status_;
    };
    host.Find(query, [answer](absl::Status status) {
      answer->status = std::move(status);
      answer->at = absl::Now();
      answer->done.Notify();
    });
    return answer;
  }
  AnswerPtr AskAndWait(Fleet& host, bool lease = false, const Name& name = TestName()) {
    auto answer = Ask(host, lease, name);
    answer->done.WaitForNotification();
    return answer;
  }
  void Put(Fleet& host, const std::string& content = "content", const Name& name = TestName()) {
    host.Put(name, [content] { return TestParcel(content, {"blob of " + content}); });
    host.Flush(absl::InfiniteFuture());
  }
  static v1::Stats Stats(Fleet& host) {
    v1::Stats stats;
    host.FillStats(&stats);
    return stats;
  }
  void SetServer(absl::Status status, absl::Duration delay = {}) {
    absl::MutexLock lock(&server_->mutex);
    server_->status = std::move(status);
    server_->delay = delay;
  }
  int Calls() {
    absl::MutexLock lock(&server_->mutex);
    return server_->calls;
  }
  template <class Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 500; ++i) {
      if (condition()) return true;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }

  FleetOptions options_;
  std::shared_ptr<FakeServer> server_;
  std::atomic<int> taken_{0};
  absl::Status take_status_;
  absl::Notification* disk_ = nullptr;              // what the store waits for, if it does
  absl::Duration wait_ = absl::InfiniteDuration();  // of who asks with a lease
};

TEST_F(FleetTest, WhatOneHostPutAnotherFinds) {
  const auto one = Host(), two = Host("");
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*two)->status));
  Put(*one);
  const auto answer = AskAndWait(*two);
  EXPECT_TRUE(answer->status.ok()) << answer->status;
  EXPECT_EQ(answer->content, "content");
  EXPECT_EQ(Stats(*one).fleet_put(), 1u);
  EXPECT_EQ(Stats(*two).fleet_hits(), 1u);
  EXPECT_EQ(Stats(*two).fleet_misses(), 1u);
  EXPECT_EQ(Stats(*two).fleet_errors(), 0u);
  EXPECT_GT(Stats(*two).fleet_bytes_in(), 0u);
  EXPECT_EQ(Stats(*one).fleet_bytes_out(), Stats(*two).fleet_bytes_in());
  EXPECT_EQ(Stats(*two).fleet(), "fake:// (read-only)");
}

TEST_F(FleetTest, AReadOnlyHostPutsNothing) {
  const auto host = Host("");
  Put(*host);
  EXPECT_EQ(server_->puts, 0);
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*host, /*lease=*/true)->status));
  EXPECT_TRUE(server_->leases.empty());
}

TEST_F(FleetTest, WhoAskAtATimeAskOnce) {
  const auto host = Host();
  Put(*host);
  SetServer(absl::OkStatus(), absl::Milliseconds(30));
  const int before = Calls();
  std::vector<AnswerPtr> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(Ask(*host));
  for (const AnswerPtr& answer : answers) {
    answer->done.WaitForNotification();
    EXPECT_TRUE(answer->status.ok()) << answer->status;
  }
  EXPECT_EQ(taken_, 1);
  EXPECT_EQ(Calls() - before, 2);
}

TEST_F(FleetTest, NobodyWaitsForASilentServerLongerThanTheBudget) {
  options_.answer = absl::Milliseconds(100);
  const auto host = Host();
  SetServer(absl::OkStatus(), absl::InfiniteDuration());
  const absl::Time start = absl::Now();
  const auto answer = AskAndWait(*host);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer->status)) << answer->status;
  EXPECT_GE(answer->at - start, absl::Milliseconds(95));
  EXPECT_LT(answer->at - start, kLong);
  EXPECT_EQ(Stats(*host).fleet_errors(), 1u);
  EXPECT_EQ(Stats(*host).fleet_misses(), 0u);
  SetServer(absl::OkStatus());
}

// Also when more ask than there are threads, all of which hang.
TEST_F(FleetTest, ManyWaitNoLongerThanOne) {
  options_.answer = absl::Milliseconds(100);
  const auto host = Host();
  SetServer(absl::OkStatus(), absl::InfiniteDuration());
  const absl::Time start = absl::Now();
  std::vector<AnswerPtr> answers;
  for (int i = 0; i < 40; ++i) {
    answers.push_back(Ask(*host, false, TestName(std::to_string(i))));
  }
  for (const AnswerPtr& answer : answers) {
    answer->done.WaitForNotification();
    EXPECT_LT(answer->at - start, kLong);
  }
  EXPECT_EQ(Stats(*host).fleet_breaker_open(), 1u);
  SetServer(absl::OkStatus());
}

// A store that takes its time, for each of many, is not the server's fault.
TEST_F(FleetTest, ASlowDiskDelaysNoQuestion) {
  const auto host = Host();
  constexpr int kPrograms = 12;
  for (int i = 0; i < kPrograms; ++i) Put(*host, "content", TestName(std::to_string(i)));
  absl::Notification disk;
  disk_ = &disk;
  std::vector<AnswerPtr> answers;
  for (int i = 0; i < kPrograms; ++i) {
    answers.push_back(Ask(*host, false, TestName(std::to_string(i))));
  }
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*host, false, TestName("none"))->status));
  disk.Notify();
  for (const AnswerPtr& answer : answers) {
    answer->done.WaitForNotification();
    EXPECT_TRUE(answer->status.ok()) << answer->status;
  }
  EXPECT_EQ(Stats(*host).fleet_errors(), 0u);
}

TEST_F(FleetTest, BreakerOpensAndAProbeClosesIt) {
  const auto host = Host();
  Put(*host);
  SetServer(absl::UnavailableError("connection refused"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(AskAndWait(*host)->status));
  EXPECT_EQ(Stats(*host).fleet_breaker_open(), 1u);
  EXPECT_EQ(Stats(*host).fleet_breaker_opened(), 1u);
  EXPECT_EQ(Stats(*host).fleet_errors(), 3u);
  EXPECT_THAT(Stats(*host).fleet_problem(), HasSubstr("not asked: connection refused"));
  // Nobody is kept for a moment, nor is what was compiled.
  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) AskAndWait(*host);
  EXPECT_LT(absl::Now() - start, kLong);
  EXPECT_EQ(Stats(*host).fleet_skipped(), 1000u);
  Put(*host);
  EXPECT_EQ(Stats(*host).fleet_dropped(), 1u);
  EXPECT_EQ(Stats(*host).fleet_errors(), 3u);
  SetServer(absl::OkStatus());
  EXPECT_TRUE(Eventually([&] { return Stats(*host).fleet_breaker_open() == 0; }));
  EXPECT_TRUE(AskAndWait(*host)->status.ok());
  EXPECT_EQ(Stats(*host).fleet_problem(), "");
}

TEST_F(FleetTest, AProbeThatIsGivenSomethingClosesNothing) {
  const auto host = Host();
  SetServer(absl::UnavailableError("reset"));
  for (int i = 0; i < 3; ++i) AskAndWait(*host);
  {
    absl::MutexLock lock(&server_->mutex);
    server_->objects[Name{"probe", std::string(32, '\0')}.Path()] = "anything";
  }
  SetServer(absl::OkStatus());
  EXPECT_TRUE(Eventually(
      [&] { return Stats(*host).fleet_problem() == "not asked: it gives what nobody put"; }));
  EXPECT_EQ(Stats(*host).fleet_breaker_open(), 1u);
}

TEST_F(FleetTest, AfterAProbeOneFailureOpensAgain) {
  const auto host = Host();
  SetServer(absl::UnavailableError("reset"));
  for (int i = 0; i < 3; ++i) AskAndWait(*host);
  SetServer(absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return Stats(*host).fleet_breaker_open() == 0; }));
  SetServer(absl::UnavailableError("reset"));
  AskAndWait(*host);
  EXPECT_EQ(Stats(*host).fleet_breaker_opened(), 2u);
}

TEST_F(FleetTest, LiesAreRefusedAndTheServerAskedOn) {
  const auto one = Host(), two = Host();
  Put(*one);
  server_->objects[TestName().Path()].back() ^= 1;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(absl::IsNotFound(AskAndWait(*two)->status));
  EXPECT_EQ(Stats(*two).fleet_refused(), 5u);
  EXPECT_EQ(Stats(*two).fleet_breaker_open(), 0u);
  Put(*two);
  EXPECT_TRUE(AskAndWait(*one)->status.ok()) << "it is put over the lie";
}

TEST_F(FleetTest, WhatTheStoreRefusesIsCounted) {
  const auto host = Host();
  Put(*host);
  take_status_ = absl::DataLossError("no program");
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*host)->status));
  EXPECT_EQ(Stats(*host).fleet_refused(), 1u);
  take_status_ = absl::ResourceExhaustedError("the disk is full");
  EXPECT_TRUE(absl::IsResourceExhausted(AskAndWait(*host)->status));
  EXPECT_EQ(Stats(*host).fleet_refused(), 1u);
  EXPECT_EQ(Stats(*host).fleet_errors(), 0u) << "the tier did nothing wrong";
}

TEST_F(FleetTest, OneHostCompilesForAll) {
  constexpr int kHosts = 20;
  std::vector<std::unique_ptr<Fleet>> hosts;
  for (int i = 0; i < kHosts; ++i) hosts.push_back(Host());
  std::vector<AnswerPtr> answers;
  for (const auto& host : hosts) answers.push_back(Ask(*host, /*lease=*/true));
  int compiling = -1;
  ASSERT_TRUE(Eventually([&] {
    for (int i = 0; i < kHosts; ++i) {
      if (answers[i]->done.HasBeenNotified()) compiling = i;
    }
    return compiling >= 0;
  }));
  absl::SleepFor(absl::Milliseconds(300));
  for (int i = 0; i < kHosts; ++i) {
    EXPECT_EQ(answers[i]->done.HasBeenNotified(), i == compiling) << i;
  }
  EXPECT_TRUE(absl::IsNotFound(answers[compiling]->status));
  Put(*hosts[compiling]);
  for (int i = 0; i < kHosts; ++i) {
    answers[i]->done.WaitForNotification();
    EXPECT_EQ(answers[i]->status.ok(), i != compiling) << answers[i]->status;
  }
  EXPECT_EQ(taken_, kHosts - 1);
}

TEST_F(FleetTest, WhoGivesUpLetsAnotherCompile) {
  const auto one = Host(), two = Host();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*one, true)->status));
  const auto answer = Ask(*two, true);
  EXPECT_FALSE(answer->done.WaitForNotificationWithTimeout(absl::Milliseconds(150)));
  one->GiveUp(TestName());
  answer->done.WaitForNotification();
  EXPECT_TRUE(absl::IsNotFound(answer->status));
  EXPECT_EQ(Stats(*two).fleet_waited(), 1u);
}

TEST_F(FleetTest, NobodyWaitsLongerThanALease) {
  options_.lease = absl::Milliseconds(400);
  const auto one = Host(), two = Host();
  AskAndWait(*one, true);
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*two, true)->status));
  EXPECT_GT(absl::Now() - start, absl::Milliseconds(200));
  EXPECT_LT(absl::Now() - start, kLong);
}

// Not each for itself when the first one's lease is over.
TEST_F(FleetTest, OneHostTakesOverForAllFromOneThatDied) {
  options_.lease = absl::Milliseconds(400);
  const auto dead = Host();
  AskAndWait(*dead, true);
  options_.lease = absl::Seconds(30);
  std::vector<std::unique_ptr<Fleet>> hosts;
  for (int i = 0; i < 5; ++i) hosts.push_back(Host());
  std::vector<AnswerPtr> answers;
  for (const auto& host : hosts) answers.push_back(Ask(*host, /*lease=*/true));
  int next = -1;
  ASSERT_TRUE(Eventually([&] {
    for (int i = 0; i < 5; ++i) next = answers[i]->done.HasBeenNotified() ? i : next;
    return next >= 0;
  }));
  absl::SleepFor(absl::Milliseconds(200));
  Put(*hosts[next]);
  for (int i = 0; i < 5; ++i) {
    answers[i]->done.WaitForNotification();
    EXPECT_EQ(answers[i]->status.ok(), i != next) << i << ": " << answers[i]->status;
  }
}

TEST_F(FleetTest, NobodyWaitsLongerThanItWants) {
  const auto one = Host(), two = Host();
  AskAndWait(*one, true);
  wait_ = absl::Milliseconds(200);
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*two, true)->status));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
  EXPECT_LT(absl::Now() - start, options_.lease);
}

TEST_F(FleetTest, AHostDoesNotWaitForItself) {
  const auto one = Host();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*one, true)->status));
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*one, true)->status)) << "who had the lease is gone";
  EXPECT_LT(absl::Now() - start, options_.lease);
  EXPECT_EQ(Stats(*one).fleet_waited(), 0u);
}

TEST_F(FleetTest, ATierIsNotToBlameForWhoHadLittleTime) {
  const auto host = Host();
  Put(*host);
  SetServer(absl::OkStatus(), absl::Milliseconds(40));
  for (int i = 0; i < 8; ++i) {
    Fleet::Query query;
    query.name = Name{"kernel", Sha256(std::to_string(i))};
    query.answer = absl::Milliseconds(5);
    absl::Notification done;
    host->Find(query, [&](absl::Status status) {
      EXPECT_FALSE(status.ok());
      done.Notify();
    });
    done.WaitForNotification();
  }
  EXPECT_EQ(Stats(*host).fleet_breaker_opened(), 0u);
  EXPECT_EQ(Stats(*host).fleet_errors(), 0u);
  EXPECT_TRUE(AskAndWait(*host)->status.ok());
}

// What is added to one by one is made under a lease of another name, which the addition ends.
TEST_F(FleetTest, AnAdditionEndsTheLeaseOfWhoMakesIt) {
  const Name name{"frames", Sha256("place")}, lease{"capture", Sha256("place")};
  const auto one = Host(), two = Host();
  const auto ask = [&](Fleet& host) {
    auto answer = std::make_shared<Answer>();
    Fleet::Query query;
    query.name = name;
    query.lease = lease;
    query.take = [answer](const Parcel& parcel) {
      for (const Blob& blob : parcel.blobs) answer->content += *blob.bytes;
      return absl::OkStatus();
    };
    host.Find(query, [answer](absl::Status status) {
      answer->status = std::move(status);
      answer->done.Notify();
    });
    return answer;
  };
  const auto first = ask(*one);
  first->done.WaitForNotification();
  EXPECT_TRUE(absl::IsNotFound(first->status));
  const auto second = ask(*two);
  EXPECT_FALSE(second->done.WaitForNotificationWithTimeout(absl::Milliseconds(150)));
  one->Add(name, [] { return Blob{Sha256("frame"), "", "frame"}; }, lease);
  second->done.WaitForNotification();
  EXPECT_TRUE(second->status.ok());
  EXPECT_EQ(second->content, "frame");
  one->Flush(absl::InfiniteFuture());
  EXPECT_TRUE(server_->leases.empty());
}

TEST_F(FleetTest, WhoWaitsForAHostIsNotKeptByADeadServer) {
  const auto one = Host(), two = Host();
  AskAndWait(*one, true);
  const auto answer = Ask(*two, true);
  absl::SleepFor(absl::Milliseconds(100));
  SetServer(absl::UnavailableError("gone"));
  EXPECT_TRUE(answer->done.WaitForNotificationWithTimeout(absl::Seconds(2)));
  EXPECT_TRUE(absl::IsUnavailable(answer->status));
}

// Its blobs were evicted: one host makes it again, the others do not take turns in failing.
TEST_F(FleetTest, AManifestWithoutItsBlobsIsMadeAgain) {
  const auto one = Host(), two = Host();
  Put(*one);
  std::erase_if(server_->objects, [](const auto& o) { return o.first.rfind("blob", 0) == 0; });
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*one, true)->status));
  const auto answer = Ask(*two, true);
  EXPECT_FALSE(answer->done.WaitForNotificationWithTimeout(absl::Milliseconds(200)));
  Put(*one, "another content");
  answer->done.WaitForNotification();
  EXPECT_TRUE(answer->status.ok());
  EXPECT_EQ(answer->content, "another content");
}

TEST_F(FleetTest, AddsFromSeveralHostsAllStay) {
  const Name name{"frames", Sha256("place")};
  std::vector<std::unique_ptr<Fleet>> hosts;
  for (int i = 0; i < 6; ++i) hosts.push_back(Host());
  for (int i = 0; i < 6; ++i) {
    const std::string frame = "frame " + std::to_string(i);
    hosts[i]->Add(name, [frame] { return Blob{Sha256(frame), "", frame}; });
  }
  for (const auto& host : hosts) host->Flush(absl::InfiniteFuture());
  Fleet::Query query;
  query.name = name;
  size_t found = 0;
  query.take = [&](const Parcel& parcel) {
    found = parcel.blobs.size();
    return absl::OkStatus();
  };
  absl::Notification done;
  hosts[0]->Find(query, [&](absl::Status) { done.Notify(); });
  done.WaitForNotification();
  EXPECT_EQ(found, 6u);
}

TEST_F(FleetTest, TooMuchToPutIsDropped) {
  options_.most_puts = 2;
  const auto host = Host();
  SetServer(absl::OkStatus(), absl::Milliseconds(50));
  for (int i = 0; i < 5; ++i) {
    host->Put(TestName(std::to_string(i)), [] { return TestParcel("content", {}); });
  }
  host->Flush(absl::InfiniteFuture());
  EXPECT_EQ(Stats(*host).fleet_put(), 2u);
  EXPECT_EQ(Stats(*host).fleet_dropped(), 3u);
}

TEST_F(FleetTest, AServerThatTakesNothingStillGives) {
  const auto host = Host();
  Put(*host);
  server_->put_status = absl::FailedPreconditionError("OOM command not allowed");
  for (int i = 0; i < 5; ++i) Put(*host, "more", TestName("more"));
  EXPECT_EQ(Stats(*host).fleet_errors(), 5u);
  EXPECT_EQ(Stats(*host).fleet_dropped(), 5u);
  const std::string told = "refused the last time: OOM command not allowed";
  EXPECT_EQ(Stats(*host).fleet_problem(), told);
  EXPECT_EQ(Stats(*host).fleet_breaker_open(), 0u);
  EXPECT_TRUE(AskAndWait(*host)->status.ok());
  // Nor does it lend: whoever would wait for another's compile compiles.
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(absl::IsNotFound(AskAndWait(*host, true, TestName("none"))->status));
  }
  EXPECT_EQ(Stats(*host).fleet_errors(), 10u);
  EXPECT_EQ(Stats(*host).fleet_breaker_open(), 0u);
  EXPECT_EQ(Stats(*host).fleet_problem(), told);
  server_->put_status = absl::OkStatus();
  Put(*host, "more", TestName("more"));
  EXPECT_EQ(Stats(*host).fleet_problem(), "");
}

TEST_F(FleetTest, WhatIsDroppedIsAnothersTurn) {
  options_.most_puts = 0;
  const auto one = Host(), two = Host();
  EXPECT_TRUE(absl::IsNotFound(AskAndWait(*one, true)->status));
  const auto answer = Ask(*two, true);
  EXPECT_FALSE(answer->done.WaitForNotificationWithTimeout(absl::Milliseconds(150)));
  one->Put(TestName(), [] { return TestParcel("content", {}); });
  EXPECT_TRUE(answer->done.WaitForNotificationWithTimeout(absl::Seconds(10)));
  EXPECT_TRUE(absl::IsNotFound(answer->status));
  EXPECT_EQ(Stats(*one).fleet_dropped(), 1u);
}

TEST_F(FleetTest, StopAnswersWhoWaits) {
  const auto one = Host(), two = Host();
  AskAndWait(*one, true);
  const auto answer = Ask(*two, true);
  absl::SleepFor(absl::Milliseconds(50));
  two->Stop();
  ASSERT_TRUE(answer->done.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(answer->status));
  EXPECT_TRUE(absl::IsUnavailable(AskAndWait(*two)->status));
}

}  // namespace fleet_test
}  // namespace tensord::fleet
