// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <utime.h>

#include <thread>

#include "server/fleet/folder_tier.h"
#include "server/fleet/open.h"
#include "tests/unit/server/fleet_testing.h"

namespace tensord::fleet {
namespace fleet_tier_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

class FolderTierTest : public FleetFolderTest {
 protected:
  FolderTierTest() : root_(folder_ + "/shared") {
    mkdir(root_.c_str(), 0700);
    chmod(root_.c_str(), 0770);
    tier_ = MakeFolderTier(root_);
  }
  static std::string Path(const std::string& text) { return Name{"blob", Sha256(text)}.Path(); }
  std::string FileOf(const std::string& text) const {
    const std::string hex = ToHex(Sha256(text));
    return root_ + "/blob/" + hex.substr(0, 2) + "/" + hex;
  }
  static absl::Time Soon() { return absl::Now() + absl::Seconds(5); }

  const std::string root_;
  std::unique_ptr<Tier> tier_;
};

TEST_F(FolderTierTest, GivesWhatWasPut) {
  ASSERT_TRUE(tier_->Put({{Path("a"), "one"}, {Path("b"), ""}}, Soon()).ok());
  ASSERT_TRUE(tier_->Put({{Path("a"), "two"}}, Soon()).ok());
  const auto got = tier_->Get({{Path("a"), 3}, {Path("none")}, {Path("b")}}, Soon());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT(*got,
              ElementsAre(Optional(std::string("two")), std::nullopt, Optional(std::string())));
}

TEST_F(FolderTierTest, WhoMayUseTheRootMayUseAllOfIt) {
  const mode_t before = umask(077);
  ASSERT_TRUE(tier_->Put({{Path("a"), "one"}}, Soon()).ok());
  umask(before);
  struct stat info;
  ASSERT_EQ(stat(FileOf("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  ASSERT_EQ(stat((root_ + "/blob").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0770u);
}

// As `chmod g+s` on a folder that the members of a group share.
TEST_F(FolderTierTest, AGroupIsHandedDown) {
  ASSERT_EQ(chmod(root_.c_str(), 02770), 0);
  const bool may_chown = chown(root_.c_str(), uid_t(-1), 12345) == 0;
  ASSERT_EQ(chmod(root_.c_str(), 02770), 0);  // which chown may take away
  struct stat root, info;
  ASSERT_EQ(stat(root_.c_str(), &root), 0);
  EXPECT_TRUE(!may_chown || root.st_gid == 12345u);
  ASSERT_TRUE(tier_->Put({{Path("a"), "one"}}, Soon()).ok());
  ASSERT_EQ(stat((root_ + "/blob").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 02770u);
  ASSERT_EQ(stat(FileOf("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, root.st_gid);
}

TEST_F(FolderTierTest, NoMoreIsReadThanWasWanted) {
  ASSERT_TRUE(tier_->Put({{Path("a"), std::string(100, 'x')}}, Soon()).ok());
  const auto got = tier_->Get({{Path("a"), 10}}, Soon());
  EXPECT_EQ((*got)[0]->size(), 11u);
}

TEST_F(FolderTierTest, WhatIsNoFileIsNotThere) {
  ASSERT_TRUE(tier_->Put({{Path("a"), "one"}}, Soon()).ok());
  std::filesystem::remove(FileOf("a"));
  ASSERT_EQ(mkfifo(FileOf("a").c_str(), 0600), 0);
  EXPECT_THAT(*tier_->Get({{Path("a")}}, Soon()), ElementsAre(std::nullopt));
}

TEST_F(FolderTierTest, AFolderThatIsNotMountedIsTrouble) {
  std::filesystem::remove_all(root_);
  EXPECT_TRUE(absl::IsUnavailable(tier_->Get({{Path("a")}}, Soon()).status()));
  EXPECT_TRUE(absl::IsUnavailable(tier_->Put({{Path("a"), "one"}}, Soon())));
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(FolderTierTest, OneOfManyClaims) {
  constexpr int kThreads = 8;
  std::vector<std::string> held(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto there =
          tier_->Claim(Path("lease"), "token " + std::to_string(i), absl::Seconds(10), Soon());
      ASSERT_TRUE(there.ok()) << there.status();
      held[i] = *there;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& one : held) EXPECT_EQ(one, held[0]);
  EXPECT_THAT(held[0], HasSubstr("token "));
}

TEST_F(FolderTierTest, ClaimsEnd) {
  ASSERT_EQ(*tier_->Claim(Path("lease"), "one", absl::Seconds(10), Soon()), "one");
  ASSERT_EQ(*tier_->Claim(Path("lease"), "two", absl::Seconds(10), Soon()), "one");
  ASSERT_TRUE(tier_->Release(Path("lease"), "two", Soon()).ok()) << "not its to give back";
  ASSERT_EQ(*tier_->Claim(Path("lease"), "two", absl::Seconds(10), Soon()), "one");
  ASSERT_TRUE(tier_->Release(Path("lease"), "one", Soon()).ok());
  ASSERT_EQ(*tier_->Claim(Path("lease"), "two", absl::Seconds(10), Soon()), "two");
  const utimbuf old{time(nullptr) - 100, time(nullptr) - 100};
  ASSERT_EQ(utime(FileOf("lease").c_str(), &old), 0);
  EXPECT_EQ(*tier_->Claim(Path("lease"), "three", absl::Seconds(10), Soon()), "three");
}

TEST(OpenTier, UrlsAtFaultSayWhatWouldDo) {
  for (const char* url : {"", "folder", "/mnt/folder", "file://folder", "file://", "http://host"}) {
    FleetConfig config;
    config.url = url;
    EXPECT_TRUE(absl::IsInvalidArgument(OpenTier(config).status())) << url;
  }
}

}  // namespace fleet_tier_test
}  // namespace tensord::fleet
