// SPDX-License-Identifier: Apache-2.0
// What is refused of what a tier gives.
#include <gmock/gmock.h>
#include <zstd.h>

#include <functional>

#include "server/fleet/exchange.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::fleet {
namespace fleet_exchange_test {

constexpr char kSigned[] = "a kernel's binary";

const absl::Time kLater = absl::InfiniteFuture();

class FleetExchangeTest : public FleetFolderTest {
 protected:
  FleetExchangeTest()
      : server_(std::make_shared<FakeServer>()),
        tier_(server_),
        keys_(OpenKeys()),
        exchange_(&tier_, keys_.get()) {}

  void Put(const Name& name, const Parcel& parcel) {
    ASSERT_TRUE(exchange_.Put(exchange_.PackParcel(name, parcel), kLater).ok());
  }
  // Puts what a trusted host could sign and never would.
  void PutManifest(const v1::FleetManifest& manifest) {
    server_->objects[TestName().Path()] = Seal(*keys_, TestName(), manifest.SerializeAsString());
  }
  absl::StatusOr<Parcel> Get(const Name& name = TestName()) {
    TENSORD_ASSIGN_OR_RETURN(const auto manifest, exchange_.GetManifest(name, kLater));
    return exchange_.GetParcel(manifest, nullptr, kLater);
  }
  // The object of the only blob.
  std::string& StoredBlob() {
    for (auto& [name, value] : server_->objects) {
      if (name.rfind("blob/", 0) == 0) return value;
    }
    ADD_FAILURE() << "no blob";
    return server_->objects["none"];
  }
  static Parcel OneBlob() {
    Parcel parcel;
    parcel.blobs.push_back({Sha256(kSigned), "", kSigned});
    return parcel;
  }

  std::shared_ptr<FakeServer> server_;
  FakeTier tier_;
  std::unique_ptr<Keys> keys_;
  Exchange exchange_;
};

TEST_F(FleetExchangeTest, GivesWhatWasPut) {
  const std::string large(3 << 20, 'x');
  Put(TestName(), TestParcel("content", {"one", large, "", "one"}));
  const auto parcel = Get();
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  EXPECT_EQ(*parcel->content, "content");
  ASSERT_EQ(parcel->blobs.size(), 4u);
  EXPECT_EQ(*parcel->blobs[1].bytes, large);
  EXPECT_EQ(*parcel->blobs[2].bytes, "");
  EXPECT_EQ(parcel->blobs[0].note, "note");
  EXPECT_TRUE(parcel->complete);
  EXPECT_LT(exchange_.bytes_out(), large.size() / 100) << "what repeats is compressed";
  EXPECT_TRUE(absl::IsNotFound(Get(TestName("another")).status()));
}

TEST_F(FleetExchangeTest, AManifestNeedsAllOfItsBlobs) {
  const auto names = [](const std::vector<Wanted>& needs) {
    std::vector<std::string> all;
    for (const Wanted& need : needs) all.push_back(need.name);
    return all;
  };
  const auto objects = exchange_.PackParcel(TestName(), TestParcel("content", {"one"}));
  EXPECT_THAT(names(objects.back().needs),
              ::testing::ElementsAre(objects[0].name, objects[1].name));
  EXPECT_EQ(objects.back().needs[0].bytes, objects[0].value.size());
  ASSERT_TRUE(exchange_.Put(objects, kLater).ok());
  // Those of before, too.
  const auto more = exchange_.PackMore(TestName(), *exchange_.GetManifest(TestName(), kLater),
                                       {Sha256("two"), "", "two"}, 64);
  EXPECT_THAT(names(more.back().needs),
              ::testing::ElementsAre(objects[0].name, objects[1].name, more[0].name));
}

TEST_F(FleetExchangeTest, WhatOneHasIsNotFetched) {
  Put(TestName(), TestParcel("content", {"one", "two"}));
  const auto manifest = exchange_.GetManifest(TestName(), kLater);
  const auto parcel = exchange_.GetParcel(
      *manifest, [](const std::string& sha256) { return sha256 == Sha256("one"); }, kLater);
  ASSERT_EQ(parcel->blobs.size(), 2u);
  for (const Blob& blob : parcel->blobs) {
    EXPECT_EQ(blob.bytes.has_value(), blob.sha256 == Sha256("two"));
  }
}

TEST_F(FleetExchangeTest, RefusesManifests) {
  struct Case {
    const char* what;
    std::function<void()> spoil;
  };
  const std::string path = TestName().Path();
  const Case cases[] = {
      {"flipped byte", [&] { server_->objects[path].back() ^= 1; }},
      {"truncated", [&] { server_->objects[path].resize(server_->objects[path].size() - 1); }},
      {"empty", [&] { server_->objects[path].clear(); }},
      {"garbage", [&] { server_->objects[path] = std::string(1000, 'x'); }},
      {"another key's",
       [&] { server_->objects[path] = server_->objects[TestName("another").Path()]; }},
      {"another kind's",
       [&] {
         server_->objects[path] =
             Seal(*keys_, {"frames", TestName().key}, v1::FleetManifest().SerializeAsString());
       }},
      {"a stranger's",
       [&] {
         ASSERT_TRUE(Keys::Make(KeyPath("stranger"), "stranger").ok());
         auto stranger = Keys::Open(KeyPath("stranger"), "");
         server_->objects[path] = Seal(**stranger, TestName(), "");
       }},
      {"another format",
       [&] { server_->objects[path][7] = static_cast<char>(server_->objects[path][7] + 1); }},
      {"larger than a manifest",
       [&] { server_->objects[path] = std::string(kMostUnknownBytes + 1, 'x'); }},
      {"no manifest", [&] { server_->objects[path] = Seal(*keys_, TestName(), "\xff\xff"); }},
      {"a blob of a terabyte",
       [&] {
         v1::FleetManifest manifest;
         Pack("x", manifest.add_blobs());
         manifest.mutable_blobs(0)->set_bytes(1ULL << 40);
         PutManifest(manifest);
       }},
      {"a terabyte stored",
       [&] {
         v1::FleetManifest manifest;
         Pack("x", manifest.add_blobs());
         manifest.mutable_blobs(0)->set_stored_bytes(1ULL << 40);
         PutManifest(manifest);
       }},
      {"many large blobs",
       [&] {
         v1::FleetManifest manifest;
         for (int i = 0; i < 3; ++i) {
           Pack("x", manifest.add_blobs());
           manifest.mutable_blobs(i)->set_bytes(kMostBlobBytes);
         }
         PutManifest(manifest);
       }},
      {"a blob without a digest",
       [&] {
         v1::FleetManifest manifest;
         Pack("x", manifest.add_blobs());
         manifest.mutable_blobs(0)->set_stored_sha256("../../etc/passwd");
         PutManifest(manifest);
       }},
  };
  for (const Case& one : cases) {
    Put(TestName(), OneBlob());
    Put(TestName("another"), OneBlob());
    ASSERT_TRUE(Get().ok());
    one.spoil();
    EXPECT_TRUE(absl::IsDataLoss(Get().status())) << one.what << ": " << Get().status();
  }
}

TEST_F(FleetExchangeTest, RefusesBlobs) {
  struct Case {
    const char* what;
    std::function<void()> spoil;
    int refused;
  };
  const Case cases[] = {
      {"flipped byte", [&] { StoredBlob().back() ^= 1; }, 1},
      {"truncated", [&] { StoredBlob().pop_back(); }, 1},
      {"longer", [&] { StoredBlob() += "x"; }, 1},
      {"empty", [&] { StoredBlob().clear(); }, 1},
      {"another content", [&] { StoredBlob() = std::string(100, 'x'); }, 1},
      {"gone",
       [&] { std::erase_if(server_->objects, [](const auto& o) { return o.first[0] == 'b'; }); },
       0},
  };
  for (const Case& one : cases) {
    Put(TestName(), OneBlob());
    one.spoil();
    const auto parcel = Get();
    ASSERT_TRUE(parcel.ok()) << one.what;
    EXPECT_FALSE(parcel->complete) << one.what;
    EXPECT_TRUE(parcel->blobs.empty()) << one.what;
    EXPECT_EQ(parcel->refused, one.refused) << one.what;
    server_->objects.clear();
  }
}

// Signed, so that only a host of the fleet could do it: the memory that is taken is bounded still.
TEST_F(FleetExchangeTest, RefusesBombs) {
  v1::FleetBlob blob;
  const std::string bomb = Pack(std::string(64 << 20, '\0'), &blob);
  EXPECT_LT(bomb.size(), 100'000u);
  for (const uint64_t claimed : {uint64_t{0}, uint64_t{100}, uint64_t{(64 << 20) - 1},
                                 uint64_t{(64 << 20) + 1}, kMostBlobBytes + 1}) {
    blob.set_bytes(claimed);
    EXPECT_TRUE(absl::IsDataLoss(Unpack(bomb, blob).status())) << claimed;
  }
  blob.set_bytes(64 << 20);
  EXPECT_TRUE(Unpack(bomb, blob).ok());
  blob.set_sha256(Sha256("another"));
  EXPECT_TRUE(absl::IsDataLoss(Unpack(bomb, blob).status()));
}

TEST_F(FleetExchangeTest, AddsBlobsAndKeepsTheLatest) {
  const Name name{"frames", Sha256("place")};
  for (int i = 0; i < 5; ++i) {
    auto manifest = exchange_.GetManifest(name, kLater);
    const std::string frame = "frame " + std::to_string(i);
    const auto objects = exchange_.PackMore(name, manifest.ok() ? *manifest : v1::FleetManifest(),
                                            {Sha256(frame), std::to_string(i), frame}, 3);
    ASSERT_TRUE(exchange_.Put(objects, kLater).ok());
  }
  const auto parcel = Get(name);
  ASSERT_TRUE(parcel.ok());
  ASSERT_EQ(parcel->blobs.size(), 3u);
  EXPECT_EQ(*parcel->blobs[0].bytes, "frame 2");
  EXPECT_EQ(parcel->blobs[2].note, "4");
}

TEST_F(FleetExchangeTest, OneHostHasTheLease) {
  const auto other_keys = OpenKeys();
  FakeTier other_tier(server_);
  Exchange other(&other_tier, other_keys.get());
  const auto token = exchange_.Claim(TestName(), absl::Seconds(10), kLater);
  ASSERT_TRUE(token.ok() && token->has_value());
  EXPECT_FALSE(other.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
  EXPECT_TRUE(other.Claim(TestName("another"), absl::Seconds(10), kLater)->has_value());
  ASSERT_TRUE(exchange_.Release(TestName(), **token, kLater).ok());
  EXPECT_TRUE(other.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
}

// A server that says so of everything does not make anybody wait.
TEST_F(FleetExchangeTest, ALeaseThatNobodySignedHoldsNobody) {
  ASSERT_TRUE(exchange_.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
  std::string& held = server_->leases.begin()->second.first;
  held.back() ^= 1;
  EXPECT_TRUE(exchange_.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
}

// Nor one that keeps giving what it was given once.
TEST_F(FleetExchangeTest, AnOldLeaseHoldsNobody) {
  ASSERT_TRUE(exchange_.Claim(TestName(), absl::Milliseconds(20), kLater)->has_value());
  server_->leases.begin()->second.second = absl::InfiniteFuture();
  EXPECT_FALSE(exchange_.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_TRUE(exchange_.Claim(TestName(), absl::Seconds(10), kLater)->has_value());
}

}  // namespace fleet_exchange_test
}  // namespace tensord::fleet
