// SPDX-License-Identifier: Apache-2.0
#include "server/frames/frame_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/sha256.h"
#include "base/version.h"
#include "server/statistics/metrics.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace frame_service_test {

using ::testing::HasSubstr;

v1::FrameEnvironment Environment() {
  v1::FrameEnvironment environment;
  environment.set_format(kFrameFormat);
  environment.set_python("3.11.2");
  environment.set_torch("2.13.0");
  environment.set_options(Sha256("options"));
  return environment;
}

v1::PutFrameRequest PutRequest(const std::string& code, const std::string& text) {
  v1::PutFrameRequest request;
  v1::Frame& frame = *request.mutable_frame();
  *frame.mutable_environment() = Environment();
  frame.mutable_code()->set_digest(Sha256(code));
  frame.mutable_code()->set_qualified_name(code);
  frame.mutable_result()->mutable_code()->set_bytecode(text);
  frame.mutable_result()->mutable_code()->set_name(code);
  return request;
}

class FrameServiceTest : public ::testing::Test {
 protected:
  FrameServiceTest() {
    char folder[] = "/tmp/tensord-frames-test.XXXXXX";
    root_ = mkdtemp(folder);
    auto store = store::Store::Open({root_ + "/store", 0, 60'000, nullptr, nullptr});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    Start({});
  }
  ~FrameServiceTest() override {
    service_.reset();
    std::filesystem::remove_all(root_);
  }

  void Start(FrameOptions options) {
    service_ = nullptr;
    service_ = std::make_unique<FrameService>(options, store_.get(), &metrics_);
  }

  // A request and what came of it.
  struct Asked {
    v1::FindFramesReply reply;
    FrameService::SearchPtr search;
    std::atomic<int> answers{0};
    absl::Status status;
    bool Await() const {
      for (int i = 0; i < 2000 && answers == 0; ++i) absl::SleepFor(absl::Milliseconds(5));
      return answers == 1;
    }
  };
  std::unique_ptr<Asked> Find(const std::string& code, uint32_t pid = 0, uint32_t wait_ms = 10'000,
                              const std::vector<std::string>& known = {},
                              const std::string& host = "elsewhere",
                              Origin origin = Origin::kThisHost) {
    v1::FindFramesRequest request;
    *request.mutable_environment() = Environment();
    request.set_code(Sha256(code));
    for (const std::string& key : known) request.add_known(key);
    request.set_captures(true);
    request.set_wait_milliseconds(wait_ms);
    // Of another host, where nobody sees whether it lives.
    request.mutable_caller()->set_pid(pid);
    request.mutable_caller()->set_host(host);
    auto asked = std::make_unique<Asked>();
    asked->search = service_->Find(
        request, &asked->reply,
        [raw = asked.get()](absl::Status status) {
          raw->status = std::move(status);
          ++raw->answers;
        },
        origin);
    return asked;
  }
  absl::StatusOr<std::string> Put(const v1::PutFrameRequest& request) {
    return PutBytes(request.SerializeAsString());
  }
  absl::StatusOr<std::string> PutBytes(const std::string& bytes) {
    v1::PutFrameReply reply;
    absl::Status status;
    std::atomic<bool> done{false};
    service_->Put(bytes, &reply, [&](absl::Status end) {
      status = std::move(end);
      done = true;
    });
    while (!done) absl::SleepFor(absl::Milliseconds(1));
    if (!status.ok()) return status;
    return reply.key();
  }
  std::vector<std::string> Found(const std::string& code) {
    const auto asked = Find(code);
    std::vector<std::string> keys;
    for (const v1::StoredFrame& frame : asked->reply.frames()) keys.push_back(frame.key());
    return keys;
  }
  absl::Status Use(const std::vector<std::string>& keys) {
    v1::UseFramesRequest request;
    request.mutable_keys()->Assign(keys.begin(), keys.end());
    return service_->Use(request);
  }
  std::string Put(const std::string& code, const std::string& text, uint64_t capture = 0) {
    v1::PutFrameRequest request = PutRequest(code, text);
    request.set_capture(capture);
    const auto key = Put(request);
    EXPECT_TRUE(key.ok()) << key.status();
    return key.value_or("");
  }

  std::string root_;
  Metrics metrics_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<FrameService> service_;
};

TEST_F(FrameServiceTest, FrameOfTheCaptureAnswersWhoWaits) {
  const auto first = Find("f", 1);
  ASSERT_TRUE(first->Await());
  EXPECT_NE(first->reply.capture(), 0u);
  const auto second = Find("f", 2), third = Find("f", 3);
  EXPECT_EQ(second->answers, 0);
  const std::string key = Put("f", "code", first->reply.capture());
  EXPECT_EQ(key, Sha256(PutRequest("f", "code").frame().SerializeAsString()));
  for (const auto& asked : {second.get(), third.get()}) {
    ASSERT_TRUE(asked->Await());
    EXPECT_TRUE(asked->status.ok());
    EXPECT_EQ(asked->reply.capture(), 0u);
    ASSERT_EQ(asked->reply.frames_size(), 1);
    EXPECT_EQ(asked->reply.frames(0).key(), key);
  }
  EXPECT_EQ(metrics_.captures, 1u);
  EXPECT_EQ(metrics_.captures_waited, 2u);
  EXPECT_EQ(metrics_.frames_found, 2u);
  EXPECT_EQ(metrics_.frames_not_found, 1u);
}

TEST_F(FrameServiceTest, FrameOfSomebodyElseAnswersThemToo) {
  const auto first = Find("f", 1), second = Find("f", 2);
  Put("f", "code");
  EXPECT_TRUE(second->Await());
  EXPECT_EQ(second->reply.frames_size(), 1);
  // The capture goes on, and nobody else has one.
  const auto third = Find("f", 3, 0, {second->reply.frames(0).key()});
  EXPECT_TRUE(third->Await());
  EXPECT_EQ(third->reply.capture(), 0u);
  EXPECT_EQ(third->reply.following_size(), 0);
}

TEST_F(FrameServiceTest, CancelledWaiterGetsNoCapture) {
  const auto first = Find("f", 1), second = Find("f", 2), third = Find("f", 3);
  service_->Cancel(second->search);
  service_->Cancel(second->search);
  service_->Cancel(first->search);  // is answered
  EXPECT_TRUE(second->Await());
  EXPECT_TRUE(absl::IsCancelled(second->status));
  v1::EndCaptureRequest end;
  end.set_capture(first->reply.capture());
  service_->EndCapture(end);
  EXPECT_TRUE(third->Await());
  EXPECT_NE(third->reply.capture(), 0u);
  EXPECT_EQ(first->answers, 1);
  EXPECT_EQ(second->answers, 1);
}

// A container beside the daemon's has its host's name, and other processes under the same numbers.
TEST_F(FrameServiceTest, NumbersFromTheNetworkAreOfNoProcessHere) {
  char here[256] = "";
  ASSERT_EQ(gethostname(here, sizeof here - 1), 0);
  for (const Origin origin : {Origin::kThisHost, Origin::kNetwork}) {
    const std::string code = origin == Origin::kThisHost ? "here" : "there";
    const pid_t pid = fork();
    if (pid == 0) {
      pause();
      _exit(0);
    }
    const auto first = Find(code, static_cast<uint32_t>(pid), 10'000, {}, here, origin);
    EXPECT_NE(first->reply.capture(), 0u);
    const auto second = Find(code, 1, 10'000, {}, "elsewhere", origin);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    if (origin == Origin::kThisHost) {
      EXPECT_TRUE(second->Await());
      EXPECT_NE(second->reply.capture(), 0u);
    } else {
      absl::SleepFor(absl::Milliseconds(500));  // five times as long as the other takes
      EXPECT_EQ(second->answers, 0);
      service_->Cancel(second->search);
    }
  }
}

TEST_F(FrameServiceTest, SoManyWait) {
  Start({absl::Seconds(30), 1 << 20, /*max_waiting=*/2});
  const auto first = Find("f", 1), second = Find("f", 2), third = Find("f", 3), late = Find("f", 4);
  EXPECT_TRUE(late->Await());
  EXPECT_EQ(late->reply.capture(), 0u);
  EXPECT_EQ(second->answers + third->answers, 0);
  service_->Stop();
  EXPECT_TRUE(second->Await() && third->Await());
  EXPECT_TRUE(absl::IsUnavailable(second->status));
}

TEST_F(FrameServiceTest, LargeFramesAreRefused) {
  Start({absl::Seconds(30), /*most_bytes=*/1000, 10});
  Put("f", std::string(500, 'x'));
  const auto refused = Put(PutRequest("f", std::string(1000, 'x')));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("frame_limit"));
  EXPECT_EQ(metrics_.frames_refused, 1u);
}

TEST_F(FrameServiceTest, WhatWaitsForTheStoreIsBounded) {
  const size_t one = PutRequest("g0", std::string(400, 'x')).ByteSizeLong();
  Start({.most_waiting_bytes = 5 * one / 2});
  const auto capture = Find("f", 1), next = Find("f", 2);
  std::string bytes[3];
  for (int i = 0; i < 3; ++i) {
    v1::PutFrameRequest request =
        PutRequest(i == 2 ? "f" : "g" + std::to_string(i), std::string(400, 'x'));
    if (i == 2) request.set_capture(capture->reply.capture());
    bytes[i] = request.SerializeAsString();
  }
  absl::Notification first, all;
  std::atomic<int> stored{0};
  v1::PutFrameReply replies[3];
  // The first is answered by the thread that stores, which is kept here.
  service_->Put(bytes[0], &replies[0], [&](absl::Status) {
    first.Notify();
    all.WaitForNotification();
  });
  first.WaitForNotification();
  for (int i = 0; i < 2; ++i) {
    service_->Put(bytes[i], &replies[1],
                  [&](const absl::Status& status) { stored += status.ok(); });
  }
  absl::Status refused;
  service_->Put(bytes[2], &replies[2], [&](absl::Status status) { refused = std::move(status); });
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  // Its capture is another's, at once.
  ASSERT_TRUE(next->Await());
  EXPECT_NE(next->reply.capture(), 0u);
  all.Notify();
  for (int i = 0; i < 2000 && stored < 2; ++i) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(stored, 2);
  EXPECT_TRUE(Put(PutRequest("f", std::string(400, 'x'))).ok()) << "there is room again";
}

TEST_F(FrameServiceTest, RequestThatDoesNotParseEndsItsCapture) {
  const auto first = Find("f", 1);
  v1::PutFrameRequest rest;
  rest.set_capture(first->reply.capture());
  // A frame of three bytes that are no message.
  const auto refused = PutBytes("\x0a\x03xyz" + rest.SerializeAsString());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  const auto second = Find("f", 2);
  ASSERT_EQ(second->answers, 1);
  EXPECT_NE(second->reply.capture(), 0u);
  // Cut off, behind the capture and with none.
  rest.set_capture(second->reply.capture());
  EXPECT_FALSE(PutBytes(rest.SerializeAsString() + "\x0a\x03").ok());
  EXPECT_NE(Find("f", 3)->reply.capture(), 0u);
  EXPECT_FALSE(PutBytes("\x0a\x03").ok());
}

TEST_F(FrameServiceTest, BeingGivenIsNoUse) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < store::kMaxFramesOfCode; ++i) keys.push_back(Put("f", std::to_string(i)));
  absl::SleepFor(absl::Milliseconds(5));
  ASSERT_TRUE(Use({keys[0]}).ok());
  const std::vector<std::string> order = Found("f");
  ASSERT_EQ(order.size(), keys.size());
  EXPECT_EQ(order[0], keys[0]);
  for (int i = 0; i < 2; ++i) {
    absl::SleepFor(absl::Milliseconds(5));
    EXPECT_EQ(Found("f"), order);
  }
  Put("f", "one more");
  const std::vector<std::string> left = Found("f");
  EXPECT_EQ(left.size(), keys.size());
  EXPECT_EQ(left[1], keys[0]);
}

TEST_F(FrameServiceTest, UsesOfStoredFramesCount) {
  const std::string key = Put("f", "code"), unknown = Sha256("not stored");
  ASSERT_TRUE(Use({key, unknown, key}).ok());
  EXPECT_EQ(metrics_.frame_hits, 2u);
  EXPECT_EQ(store_->ListFrames(0)->at(0).hits, 2u);
  EXPECT_TRUE(Use(std::vector<std::string>(4096, key)).ok());
  const absl::Status refused = Use(std::vector<std::string>(4097, key));
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(refused.message(), "keys: 4097; a request has at most 4096");
  EXPECT_EQ(metrics_.frame_hits, 4098u);
}

TEST_F(FrameServiceTest, ReasonsHaveSoManyBytes) {
  v1::EndCaptureRequest end;
  const std::string long_reason(199, 'x');
  end.set_reason(long_reason + "\xc3\xa4 and so on");
  service_->EndCapture(end);
  end.set_reason("");
  service_->EndCapture(end);
  v1::ListFramesReply reply;
  ASSERT_TRUE(service_->List({}, &reply).ok());
  ASSERT_EQ(reply.unrecorded_size(), 2);
  EXPECT_EQ(reply.unrecorded(0).reason(), "no reason given");
  EXPECT_EQ(reply.unrecorded(1).reason(), long_reason);  // no half of a character
}

TEST_F(FrameServiceTest, ManyReasonsShareALine) {
  v1::EndCaptureRequest end;
  for (int i = 0; i < 300; ++i) {
    end.set_reason("reason " + std::to_string(i));
    service_->EndCapture(end);
  }
  v1::Stats stats;
  service_->FillStats(&stats);
  EXPECT_EQ(stats.frames_unrecorded_size(), 257);
  uint64_t count = 0;
  for (const v1::UnrecordedFrame& one : stats.frames_unrecorded()) count += one.count();
  EXPECT_EQ(count, 300u);
}

TEST_F(FrameServiceTest, ListsWhatIsSought) {
  const std::string one = Put("Bert.forward", "one"), other = Put("Gpt.forward", "two");
  const auto list = [&](const std::string& search, uint32_t skip = 0, uint32_t limit = 0) {
    v1::ListFramesRequest request;
    request.set_search(search);
    request.set_skip(skip);
    request.set_limit(limit);
    v1::ListFramesReply reply;
    EXPECT_TRUE(service_->List(request, &reply).ok());
    return reply;
  };
  EXPECT_EQ(list("").matching(), 2u);
  EXPECT_EQ(list("", 0, 1).frames_size(), 1);
  EXPECT_EQ(list("", 0, 1).matching(), 2u);
  EXPECT_NE(list("", 0, 1).frames(0).key(), list("", 1, 1).frames(0).key());
  ASSERT_EQ(list("BERT").frames_size(), 1);
  EXPECT_EQ(list("BERT").frames(0).key(), one);
  EXPECT_EQ(list("forward", 1).frames_size(), 1);
  EXPECT_EQ(list("forward", 1).matching(), 2u);
  EXPECT_EQ(list(ToHex(other).substr(0, 10)).frames(0).key(), other);
  EXPECT_EQ(list("none").matching(), 0u);
}

// Of eight who go on until they are served, never do two capture at once, and each is answered.
TEST_F(FrameServiceTest, NeverTwoCapturesOfOneCode) {
  std::array<std::atomic<int>, 5> capturing{};
  std::atomic<int> captures{0};
  std::vector<std::thread> threads;
  for (uint32_t pid = 1; pid <= 8; ++pid) {
    threads.emplace_back([&, pid] {
      for (size_t round = 0; round < capturing.size(); ++round) {
        const std::string code = "code " + std::to_string(round);
        while (true) {
          const auto asked = Find(code, pid);
          ASSERT_TRUE(asked->Await());
          if (asked->reply.frames_size() > 0) break;
          ASSERT_NE(asked->reply.capture(), 0u);
          ++captures;
          // Every third gives nothing.
          if (pid % 3 == 0) {
            v1::EndCaptureRequest end;
            end.set_capture(asked->reply.capture());
            service_->EndCapture(end);
            break;
          }
          EXPECT_EQ(++capturing[round], 1);
          absl::SleepFor(absl::Milliseconds(2));
          --capturing[round];
          Put(code, "bytes", asked->reply.capture());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(captures, 5);
  EXPECT_EQ(store_->Count()->frames, 5u);
}

}  // namespace frame_service_test
}  // namespace tensord::server
