// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "server/fleet/keys.h"
#include "server/fleet/sealed.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::fleet {
namespace fleet_keys_test {

using ::testing::HasSubstr;

class FleetKeysTest : public FleetFolderTest {
 protected:
  void Write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
};

TEST_F(FleetKeysTest, OpensWhatItSealed) {
  const auto keys = OpenKeys();
  const std::string sealed = Seal(*keys, TestName(), "body");
  EXPECT_EQ(*Open(*OpenKeys(""), TestName(), sealed), "body");
  EXPECT_EQ(*Open(*keys, TestName(), Seal(*keys, TestName(), "")), "");
}

TEST_F(FleetKeysTest, EveryByteCounts) {
  const auto keys = OpenKeys();
  const std::string sealed = Seal(*keys, TestName(), "body");
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    EXPECT_TRUE(absl::IsDataLoss(Open(*keys, TestName(), flipped).status())) << i;
    EXPECT_TRUE(absl::IsDataLoss(Open(*keys, TestName(), sealed.substr(0, i)).status())) << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(Open(*keys, TestName(), sealed + "x").status()));
}

TEST_F(FleetKeysTest, BelongsToItsName) {
  const auto keys = OpenKeys();
  const std::string sealed = Seal(*keys, TestName(), "body");
  EXPECT_FALSE(Open(*keys, TestName("another"), sealed).ok());
  EXPECT_FALSE(Open(*keys, {"frames", TestName().key}, sealed).ok());
  EXPECT_FALSE(Open(*keys, {"progra", "m" + TestName().key}, sealed).ok());
}

TEST_F(FleetKeysTest, OthersKeysAreRefused) {
  const auto keys = OpenKeys();
  ASSERT_TRUE(Keys::Make(KeyPath("stranger"), "stranger").ok());
  auto stranger = Keys::Open(KeyPath("stranger"), "");
  ASSERT_TRUE(stranger.ok());
  const std::string sealed = Seal(**stranger, TestName(), "body");
  EXPECT_TRUE(Open(**stranger, TestName(), sealed).ok()) << "its own, without a list";
  const auto opened = Open(*keys, TestName(), sealed);
  EXPECT_THAT(opened.status().ToString(), HasSubstr("fleet_trust does not list"));
}

// A signature under the id of another, trusted key.
TEST_F(FleetKeysTest, IdOfATrustedKeyIsNotEnough) {
  const auto keys = OpenKeys();
  AddKey("second");
  const std::string ours = keys->Sign("text");
  const std::string theirs = OpenKeys("second")->Sign("text");
  EXPECT_TRUE(keys->Verify("text", theirs).ok());
  const std::string mixed = ours.substr(0, kKeyIdBytes) + theirs.substr(kKeyIdBytes);
  EXPECT_FALSE(keys->Verify("text", mixed).ok());
}

TEST_F(FleetKeysTest, KeysAreRotatedWithoutARestart) {
  const auto writer = OpenKeys();
  const auto reader = OpenKeys("");
  const std::string old = Seal(*writer, TestName(), "old");
  EXPECT_TRUE(Open(*reader, TestName(), old).ok());
  // A new key signs; both count.
  AddKey("next");
  std::filesystem::rename(KeyPath("next"), KeyPath("key"));
  const std::string fresh = Seal(*writer, TestName(), "new");
  EXPECT_NE(old.substr(8, kKeyIdBytes), fresh.substr(8, kKeyIdBytes));
  EXPECT_TRUE(Open(*reader, TestName(), fresh).ok());
  EXPECT_TRUE(Open(*reader, TestName(), old).ok());
  // The old one is struck off.
  std::string line, kept;
  for (std::ifstream file(trust_); std::getline(file, line);) {
    if (line.rfind("next ", 0) == 0) kept += line + "\n";
  }
  Write(trust_, kept);
  EXPECT_TRUE(Open(*reader, TestName(), fresh).ok());
  EXPECT_FALSE(Open(*reader, TestName(), old).ok());
}

TEST_F(FleetKeysTest, ABrokenChangeLeavesKeysInForce) {
  const auto reader = OpenKeys("");
  const std::string sealed = Seal(*OpenKeys(), TestName(), "body");
  Write(trust_, "key\n");
  EXPECT_TRUE(Open(*reader, TestName(), sealed).ok());
  EXPECT_THAT(reader->Problem(), HasSubstr("trust:1: a name and 64 hex digits"));
}

TEST_F(FleetKeysTest, AKeyIsStruckOffThoughThereIsNoneToSignWith) {
  AddKey("lost");
  const auto keys = OpenKeys();
  const std::string sealed = Seal(*OpenKeys("lost"), TestName(), "body");
  EXPECT_TRUE(Open(*keys, TestName(), sealed).ok());
  std::filesystem::remove(KeyPath("key"));
  std::string line, kept;
  for (std::ifstream file(trust_); std::getline(file, line);) {
    if (line.rfind("lost ", 0) != 0) kept += line + "\n";
  }
  Write(trust_, kept);
  EXPECT_FALSE(Open(*keys, TestName(), sealed).ok());
  EXPECT_THAT(keys->Problem(), HasSubstr("cannot read fleet_sign_key"));
}

TEST_F(FleetKeysTest, FilesAtFaultAreNamed) {
  EXPECT_THAT(Keys::Open("", "").status().ToString(), HasSubstr("fleet_trust"));
  EXPECT_THAT(Keys::Open(KeyPath("none"), "").status().ToString(), HasSubstr("none"));
  EXPECT_THAT(Keys::Open("", KeyPath("none")).status().ToString(), HasSubstr("none"));
  Write(KeyPath("text"), "no key");
  chmod(KeyPath("text").c_str(), 0600);
  EXPECT_THAT(Keys::Open(KeyPath("text"), "").status().ToString(), HasSubstr("PEM"));
  chmod(KeyPath("key").c_str(), 0644);
  EXPECT_THAT(Keys::Open(KeyPath("key"), "").status().ToString(), HasSubstr("chmod 600"));
  EXPECT_FALSE(Keys::Make(KeyPath("key"), "key").ok()) << "never over a key";
  EXPECT_FALSE(Keys::Make(KeyPath("other"), "a name").ok());
}

TEST_F(FleetKeysTest, OtherKindsOfKeysAreNone) {
  const std::string command =
      "openssl genpkey -algorithm x25519 -out " + KeyPath("x") + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) GTEST_SKIP() << "no openssl";
  EXPECT_THAT(Keys::Open(KeyPath("x"), "").status().ToString(), HasSubstr("no private Ed25519"));
}

}  // namespace fleet_keys_test
}  // namespace tensord::fleet
