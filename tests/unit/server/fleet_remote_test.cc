// SPDX-License-Identifier: Apache-2.0
// The Remote Execution API's tier, over a server in this process. Real servers are in
// tests/e2e/test_fleet_remote.py.
#include <gmock/gmock.h>

#include <thread>

#include "server/fleet/exchange.h"
#include "server/fleet/remote/remote_tier.h"
#include "tests/unit/server/fleet_testing.h"
#include "tests/unit/server/remote_server.h"

namespace tensord::fleet {
namespace fleet_remote_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(RemoteUrl, Parts) {
  const auto full = ParseRemoteUrl("grpcs://me:p%40ss@cache.example:9092/main/arm");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->password, "p@ss");
  EXPECT_EQ(full->instance, "main/arm");
  EXPECT_TRUE(full->tls);
  EXPECT_EQ(full->ToString(), "grpcs://cache.example:9092/main/arm");
  EXPECT_EQ(ParseRemoteUrl("grpc://[::1]:9092")->ToString(), "grpc://[::1]:9092");
  EXPECT_EQ(ParseRemoteUrl("grpc://:token@host:1")->password, "token");
  EXPECT_EQ(ParseRemoteUrl("grpc://host:1/")->instance, "");
  for (const char* wrong : {"grpc:", "grpc://", "grpc://host", "grpc://host:", "grpc://host:x",
                            "http://host:1", "grpc://u:%4@host:1", "grpc:///path"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseRemoteUrl(wrong).status())) << wrong;
  }
}

class RemoteTierTest : public FleetFolderTest {
 protected:
  std::unique_ptr<Tier> MakeTier(const std::string& login = "") const {
    auto options = ParseRemoteUrl(
        absl::StrCat("grpc://", login, "127.0.0.1:", server_.port, "/", server_.instance));
    EXPECT_TRUE(options.ok()) << options.status();
    options->password_file = password_file_;
    return MakeRemoteTier(*std::move(options));
  }
  static std::string BlobName(const std::string& bytes) {
    return Name{"blob", Sha256(bytes)}.Path();
  }
  static Object BlobOf(const std::string& bytes) { return {BlobName(bytes), bytes}; }
  static Wanted WantedOf(const std::string& bytes) { return {BlobName(bytes), bytes.size()}; }
  // Bytes that differ by `seed`.
  static std::string Bytes(size_t size, char seed) {
    std::string bytes(size, seed);
    for (size_t i = 0; i < size; i += 97) bytes[i] = static_cast<char>(i / 97);
    return bytes;
  }
  static absl::Time Soon() { return absl::Now() + absl::Seconds(10); }
  // Of every call from now on.
  void FailWith(grpc::StatusCode code) {
    server_.before = [code](const std::string&, const auto&) { return grpc::Status(code, "no"); };
  }

  RemoteServer server_;
  std::string password_file_;
  const std::string name_ = TestName().Path();
  const std::string lease_ = Name{"lease", Sha256("x")}.Path();
};

TEST_F(RemoteTierTest, GivesWhatWasPut) {
  for (const bool inlines : {false, true}) {
    server_.inlines = inlines;
    const auto tier = MakeTier();
    const std::string manifest = inlines ? "two" : "one";
    ASSERT_TRUE(
        tier->Put({BlobOf("a"), BlobOf("b"), {name_, manifest, {WantedOf("a")}}}, Soon()).ok());
    const auto got = MakeTier()->Get(
        {WantedOf("b"), {name_}, WantedOf("none"), WantedOf("a"), {lease_}, WantedOf("b")}, Soon());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(*got,
                ElementsAre(Optional(std::string("b")), Optional(manifest), std::nullopt,
                            Optional(std::string("a")), std::nullopt, Optional(std::string("b"))));
  }
}

TEST_F(RemoteTierTest, InstancesAreNamedInEveryCall) {
  server_.instance = "main";
  const auto tier = MakeTier();
  const std::string large = Bytes(20'000, 'x');
  ASSERT_TRUE(tier->Put({BlobOf("a"), BlobOf(large), {name_, "one"}}, Soon()).ok());
  EXPECT_TRUE(tier->Get({WantedOf("a"), WantedOf(large), {name_}}, Soon()).ok());
  EXPECT_EQ(server_.Calls("Read"), 1);
  server_.instance = "other";
  EXPECT_THAT(tier->Get({{name_}}, Soon()).status().ToString(), HasSubstr("no such instance"));
}

// The server checks that no batch is larger than it says.
TEST_F(RemoteTierTest, LargeBlobsAreStreamsAndSmallOnesBatches) {
  const auto tier = MakeTier();
  std::vector<Object> objects;
  std::vector<Wanted> wanted;
  for (const size_t size : {1, 100, 4'000, 4'000, 7'900, 8'200, 20'000, 2'500'000}) {
    const std::string bytes = Bytes(size, static_cast<char>(objects.size()));
    objects.push_back(BlobOf(bytes));
    wanted.push_back(WantedOf(bytes));
  }
  ASSERT_TRUE(tier->Put(objects, Soon()).ok());
  EXPECT_EQ(server_.Calls("Write"), 3);
  EXPECT_GE(server_.Calls("BatchUpdateBlobs"), 2);
  const auto got = tier->Get(wanted, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(server_.Calls("Read"), 3);
  EXPECT_GE(server_.Calls("BatchReadBlobs"), 2);
  for (size_t i = 0; i < objects.size(); ++i) EXPECT_EQ((*got)[i], objects[i].value) << i;
}

TEST_F(RemoteTierTest, AServerWithoutALimitGetsMessagesThatGrpcTakes) {
  server_.capabilities.mutable_cache_capabilities()->set_max_batch_total_size_bytes(0);
  RemoteOptions options = *ParseRemoteUrl(absl::StrCat("grpc://127.0.0.1:", server_.port));
  const auto session = RemoteSession::Open(options, Soon());
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_LT((*session)->most_batch(), uint64_t{4 << 20});
  EXPECT_GT((*session)->most_batch(), uint64_t{3 << 20});
}

TEST_F(RemoteTierTest, WhatIsThereIsNotSentAgain) {
  const auto tier = MakeTier();
  const std::string large = Bytes(20'000, 'x');
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(tier->Put({BlobOf("a"), BlobOf(large), {name_, "one"}}, Soon()).ok());
  }
  EXPECT_EQ(server_.Calls("BatchUpdateBlobs"), 1);
  EXPECT_EQ(server_.Calls("Write"), 1);
  EXPECT_EQ(server_.Calls("UpdateActionResult"), 2);
  EXPECT_EQ(server_.Calls("GetCapabilities"), 1);
}

TEST_F(RemoteTierTest, ResultsNameWhatTheyNeed) {
  ASSERT_TRUE(
      MakeTier()
          ->Put({BlobOf("a"), BlobOf("b"), {name_, "one", {WantedOf("a"), WantedOf("b")}}}, Soon())
          .ok());
  absl::MutexLock lock(&server_.mutex);
  ASSERT_EQ(server_.results.size(), 1u);
  const auto& [hash, result] = *server_.results.begin();
  ASSERT_EQ(result.output_files_size(), 2);
  EXPECT_EQ(result.output_files(1).digest().hash(), DigestOf("b").hash());
  EXPECT_EQ(result.output_files(1).digest().size_bytes(), 1);
  reapi::Action action;
  reapi::Command command;
  ASSERT_TRUE(action.ParseFromString(server_.blobs[hash]));
  ASSERT_TRUE(command.ParseFromString(server_.blobs[action.command_digest().hash()]));
  EXPECT_THAT(command.arguments(), ElementsAre("tensord", name_));
  // By this hosts of other versions know it.
  EXPECT_EQ(hash, "58aa6696dc3584bd7da4cadd8b57dba19fb67fb4c743bcc3ea9c162a692895f2");
}

TEST_F(RemoteTierTest, AValueThatWasEvictedIsNotThere) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({{name_, "one"}}, Soon()).ok());
  {
    absl::MutexLock lock(&server_.mutex);
    server_.blobs.erase(DigestOf("one").hash());
  }
  EXPECT_THAT(*tier->Get({{name_}}, Soon()), ElementsAre(std::nullopt));
}

TEST_F(RemoteTierTest, AValueLargerThanAnyOfOursIsNotFetched) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({{name_, "one"}}, Soon()).ok());
  server_.change_result = [](reapi::ActionResult* result) {
    result->mutable_stdout_digest()->set_size_bytes(int64_t{1} << 40);
  };
  EXPECT_THAT(*tier->Get({{name_}}, Soon()), ElementsAre(std::nullopt));
  EXPECT_EQ(server_.Calls("Read"), 0);
}

TEST_F(RemoteTierTest, AnswersForSomeBlobsOnlyAreTrouble) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({BlobOf("a"), BlobOf("b")}, Soon()).ok());
  server_.change_read = [](reapi::BatchReadBlobsResponse* reply) {
    reply->mutable_responses()->RemoveLast();
  };
  EXPECT_TRUE(absl::IsUnavailable(tier->Get({WantedOf("a"), WantedOf("b")}, Soon()).status()));
  server_.change_written = [](reapi::BatchUpdateBlobsResponse* reply) { reply->Clear(); };
  EXPECT_TRUE(absl::IsUnavailable(tier->Put({BlobOf("c")}, Soon())));
  server_.committed = 7;
  EXPECT_TRUE(absl::IsUnavailable(tier->Put({BlobOf(Bytes(20'000, 'x'))}, Soon())));
}

TEST_F(RemoteTierTest, FaultsOfOneBlobAreTrouble) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({BlobOf("a")}, Soon()).ok());
  server_.change_read = [](reapi::BatchReadBlobsResponse* reply) {
    reply->mutable_responses(0)->mutable_status()->set_code(grpc::INTERNAL);
  };
  EXPECT_TRUE(absl::IsUnavailable(tier->Get({WantedOf("a")}, Soon()).status()));
  server_.change_written = [](reapi::BatchUpdateBlobsResponse* reply) {
    reply->mutable_responses(0)->mutable_status()->set_code(grpc::RESOURCE_EXHAUSTED);
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(tier->Put({BlobOf("b")}, Soon()))) << "no room";
}

TEST_F(RemoteTierTest, WrongBytesAreRefusedByWhoAsked) {
  const auto keys = OpenKeys();
  const auto tier = MakeTier();
  Exchange exchange(tier.get(), keys.get());
  ASSERT_TRUE(
      exchange.Put(exchange.PackParcel(TestName(), TestParcel("content", {"kernel"})), Soon())
          .ok());
  const auto manifest = exchange.GetManifest(TestName(), Soon());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_TRUE(exchange.GetParcel(*manifest, nullptr, Soon())->complete);
  server_.change_read = [](reapi::BatchReadBlobsResponse* reply) {
    for (auto& one : *reply->mutable_responses()) one.mutable_data()->back() ^= 1;
  };
  EXPECT_TRUE(absl::IsDataLoss(exchange.GetParcel(*manifest, nullptr, Soon()).status()));
  EXPECT_TRUE(absl::IsDataLoss(exchange.GetManifest(TestName(), Soon()).status()));
}

TEST_F(RemoteTierTest, AStreamWithoutAnEndIsLeft) {
  const std::string large = Bytes(20'000, 'x');
  server_.read_stream = [](auto* reply) {
    google::bytestream::ReadResponse part;
    part.set_data(std::string(1000, 'y'));
    while (reply->Write(part)) {
    }
    return grpc::Status::OK;
  };
  const auto got = MakeTier()->Get({WantedOf(large)}, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0]->size(), large.size() + 1);
}

TEST_F(RemoteTierTest, AStreamThatBreaksIsTrouble) {
  const Wanted large = WantedOf(Bytes(20'000, 'x'));
  server_.read_stream = [](auto* reply) {
    reply->Write(google::bytestream::ReadResponse());
    return grpc::Status(grpc::ABORTED, "broken");
  };
  EXPECT_TRUE(absl::IsUnavailable(MakeTier()->Get({large}, Soon()).status()));
  server_.read_stream = nullptr;
  EXPECT_THAT(*MakeTier()->Get({large}, Soon()), ElementsAre(std::nullopt));
}

TEST_F(RemoteTierTest, WhoeverIsNotKnownIsRefused) {
  std::string wanted = "Bearer first";
  server_.before = [&](const std::string&, const grpc::ServerContext& context) {
    const auto& header = context.client_metadata();
    const auto given = header.find("authorization");
    return given != header.end() &&
                   wanted == std::string(given->second.data(), given->second.size())
               ? grpc::Status::OK
               : grpc::Status(grpc::UNAUTHENTICATED, "who is it");
  };
  EXPECT_THAT(MakeTier()->Get({{name_}}, Soon()).status().ToString(), HasSubstr("who is it"));
  EXPECT_TRUE(absl::IsFailedPrecondition(MakeTier()->Get({{name_}}, Soon()).status()));
  EXPECT_TRUE(MakeTier(":first@")->Get({{name_}}, Soon()).ok());

  password_file_ = folder_ + "/password";
  const auto tier = MakeTier();
  EXPECT_THAT(tier->Get({{name_}}, Soon()).status().ToString(), HasSubstr("fleet_password_file"));
  std::ofstream(password_file_) << "first\n";
  EXPECT_TRUE(tier->Get({{name_}}, Soon()).ok());
  // A token that was replaced is refused once, and read again.
  wanted = "Bearer second";
  std::ofstream(password_file_) << "second\n";
  EXPECT_TRUE(absl::IsFailedPrecondition(tier->Get({{name_}}, Soon()).status()));
  EXPECT_TRUE(tier->Get({{name_}}, Soon()).ok());

  wanted = "Basic bWU6c2Vjb25k";  // me:second
  EXPECT_TRUE(MakeTier("me@")->Get({{name_}}, Soon()).ok());
}

TEST_F(RemoteTierTest, AServerThatTakesNothingStillGives) {
  ASSERT_TRUE(MakeTier()->Put({{name_, "one"}}, Soon()).ok());
  server_.capabilities.mutable_cache_capabilities()
      ->mutable_action_cache_update_capabilities()
      ->set_update_enabled(false);
  const auto tier = MakeTier();
  const int before = server_.Calls("FindMissingBlobs");
  EXPECT_TRUE(absl::IsFailedPrecondition(tier->Put({BlobOf("a"), {name_, "two"}}, Soon())));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(tier->Claim(lease_, "one", absl::Seconds(10), Soon()).status()));
  EXPECT_EQ(server_.Calls("FindMissingBlobs"), before) << "it is not even tried";
  EXPECT_THAT(*tier->Get({{name_}}, Soon()), ElementsAre(Optional(std::string("one"))));
}

TEST_F(RemoteTierTest, CapabilitiesThatDoNotFit) {
  const reapi::ServerCapabilities fit = server_.capabilities;
  server_.capabilities.mutable_cache_capabilities()->clear_digest_functions();
  EXPECT_THAT(MakeTier()->Get({{name_}}, Soon()).status().ToString(), HasSubstr("SHA256"));
  server_.capabilities = fit;
  server_.capabilities.mutable_low_api_version()->set_major(3);
  server_.capabilities.mutable_high_api_version()->set_major(4);
  EXPECT_THAT(MakeTier()->Get({{name_}}, Soon()).status().ToString(), HasSubstr("3 to 4"));
  FailWith(grpc::UNIMPLEMENTED);
  EXPECT_TRUE(absl::IsUnavailable(MakeTier()->Get({{name_}}, Soon()).status())) << "no such API";
  EXPECT_EQ(server_.Calls("GetActionResult"), 0);
}

// Of what one call finds missing, others make nothing.
TEST_F(RemoteTierTest, NotFoundIsTroubleWhereNothingIsAskedFor) {
  const auto tier = MakeTier();
  server_.before = [](const std::string& method, const auto&) {
    return method == "UpdateActionResult" ? grpc::Status(grpc::NOT_FOUND, "the action")
                                          : grpc::Status::OK;
  };
  EXPECT_TRUE(absl::IsUnavailable(tier->Put({{name_, "one"}}, Soon())));
}

TEST_F(RemoteTierTest, NobodyWaitsPastTheDeadline) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Get({{name_}}, Soon()).ok());
  absl::Notification end;
  server_.before = [&end](const std::string&, const auto&) {
    end.WaitForNotification();
    return grpc::Status::OK;
  };
  for (const char* asked : {"with a connection", "without one"}) {
    const absl::Time start = absl::Now();
    const auto got = tier->Get({{name_}}, start + absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(got.status())) << asked << ": " << got.status();
    EXPECT_LT(absl::Now() - start, kLong) << asked;
  }
  end.Notify();
  server_.Stop();
}

TEST_F(RemoteTierTest, NobodyWaitsForDrops) {
  absl::Notification end;
  server_.read_stream = [&end](auto* reply) {
    google::bytestream::ReadResponse part;
    part.set_data("y");
    while (!end.HasBeenNotified() && reply->Write(part)) absl::SleepFor(absl::Milliseconds(10));
    return grpc::Status::OK;
  };
  const absl::Time start = absl::Now();
  const auto got = MakeTier()->Get({WantedOf(Bytes(20'000, 'x'))}, start + absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(got.status())) << got.status();
  EXPECT_LT(absl::Now() - start, kLong);
  end.Notify();
  server_.Stop();
}

TEST_F(RemoteTierTest, AServerThatDiesAndComesBackIsAskedAtOnce) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({{name_, "one"}}, Soon()).ok());
  server_.Stop();
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    EXPECT_TRUE(absl::IsUnavailable(tier->Get({{name_}}, Soon()).status()));
    EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  }
  server_.Start();
  const auto got = tier->Get({{name_}}, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(*got, ElementsAre(Optional(std::string("one"))));
}

TEST_F(RemoteTierTest, OneOfManyClaims) {
  constexpr int kThreads = 8;
  std::vector<std::string> held(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto tier = MakeTier();
      ASSERT_TRUE(tier->Get({{name_}}, Soon()).ok());
      const auto there = tier->Claim(lease_, absl::StrCat("token ", i), absl::Seconds(10), Soon());
      ASSERT_TRUE(there.ok()) << there.status();
      held[i] = *there;
    });
  }
  for (std::thread& thread : threads) thread.join();
  // It is not sure that it is one, only likely: a thread may sleep through the pause of another.
  int own = 0;
  for (int i = 0; i < kThreads; ++i) own += held[i] == absl::StrCat("token ", i);
  EXPECT_GE(own, 1);
  EXPECT_LT(own, kThreads / 2);
}

TEST_F(RemoteTierTest, ClaimsEnd) {
  const auto tier = MakeTier();
  const auto claim = [&](const std::string& value, absl::Duration lifetime) {
    return *tier->Claim(lease_, value, lifetime, Soon());
  };
  EXPECT_EQ(claim("one", absl::Seconds(10)), "one");
  EXPECT_EQ(claim("two", absl::Seconds(10)), "one");
  ASSERT_TRUE(tier->Release(lease_, "two", Soon()).ok()) << "not its to give back";
  EXPECT_EQ(claim("two", absl::Seconds(10)), "one");
  ASSERT_TRUE(tier->Release(lease_, "one", Soon()).ok());
  EXPECT_EQ(claim("two", absl::Seconds(-1)), "two");
  EXPECT_EQ(claim("three", absl::Seconds(10)), "three") << "the other one's has ended";
}

// Its wish lies over that of who has the lease.
TEST_F(RemoteTierTest, WhoIsSlowToWishFindsTheLease) {
  const auto slow = MakeTier(), quick = MakeTier();
  absl::Notification reached, go_on;
  std::atomic<int> updates{0};
  server_.before = [&](const std::string& method, const auto&) {
    if (method == "UpdateActionResult" && ++updates == 1) {
      reached.Notify();
      go_on.WaitForNotification();
    }
    return grpc::Status::OK;
  };
  std::string held;
  std::thread waiting([&] { held = *slow->Claim(lease_, "slow", absl::Seconds(10), Soon()); });
  reached.WaitForNotification();
  EXPECT_EQ(*quick->Claim(lease_, "quick", absl::Seconds(10), Soon()), "quick");
  go_on.Notify();
  waiting.join();
  EXPECT_EQ(held, "quick");
}

TEST_F(RemoteTierTest, WhereThereIsNoTimeForALeaseThereIsNone) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Get({{name_}}, Soon()).ok());
  server_.before = [](const std::string&, const auto&) {
    absl::SleepFor(absl::Milliseconds(100));
    return grpc::Status::OK;
  };
  const auto claimed =
      tier->Claim(lease_, "one", absl::Seconds(10), absl::Now() + absl::Milliseconds(400));
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(*claimed, "one");
  EXPECT_EQ(server_.Calls("UpdateActionResult"), 0);
}

// Another host's result under the name, with a worker of its server's.
TEST_F(RemoteTierTest, WhatIsNoLeaseHoldsNobody) {
  const auto tier = MakeTier();
  ASSERT_TRUE(tier->Put({{lease_, "a manifest, say"}}, Soon()).ok());
  EXPECT_EQ(*tier->Claim(lease_, "one", absl::Seconds(10), Soon()), "one");
  server_.change_result = [](reapi::ActionResult* result) {
    result->mutable_execution_metadata()->set_worker("10.0.0.1:5000");
  };
  EXPECT_EQ(*tier->Claim(lease_, "two", absl::Seconds(10), Soon()), "two");
}

}  // namespace fleet_remote_test
}  // namespace tensord::fleet
