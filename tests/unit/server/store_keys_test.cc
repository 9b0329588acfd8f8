// SPDX-License-Identifier: Apache-2.0
// The key by which a store signs its records, and the old ones that still count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "server/store/store.h"
#include "tests/unit/server/store_testing.h"

namespace tensord::store {
namespace store_keys_test {

namespace fs = std::filesystem;

class StoreKeysTest : public StoreTest {};

TEST_F(StoreKeysTest, ReplacedKeyCountsAtOnce) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  ASSERT_TRUE(store->Lookup(a).ok());
  fs::remove(root_ + "/store/key");
  EXPECT_FALSE(store->Lookup(a).ok());
  Add(*store, "a");
  EXPECT_TRUE(store->Lookup(a).ok());
  EXPECT_TRUE(Open()->Lookup(a).ok());
}

// What is signed with a key that is listed as an old one counts; what is written is signed with the
// new one.
TEST_F(StoreKeysTest, RotatedKeyIsUsedAtOnceAndTheOldOneStillCounts) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string key = root_ + "/store/key";
  ASSERT_TRUE(Signer::Rotate(key, root_ + "/store/tmp").ok());
  EXPECT_EQ(ModeOf(key), 0600);
  EXPECT_EQ(ModeOf(key + ".old"), 0600);
  EXPECT_TRUE(store->Lookup(a).ok());
  EXPECT_TRUE(store->Detail(a).ok());
  const std::string b = Add(*store, "b");
  EXPECT_TRUE(Open()->Lookup(a).ok());

  fs::remove(key + ".old");
  EXPECT_TRUE(store->Lookup(b).ok());
  EXPECT_FALSE(store->Lookup(a).ok());
  EXPECT_EQ(store->counters().corrupt, 1u);
}

TEST_F(StoreKeysTest, SeveralRotationsKeepSeveralKeys) {
  auto store = Open();
  std::vector<std::string> keys;
  for (int i = 0; i < 10; ++i) {
    keys.push_back(Add(*store, std::string(1, static_cast<char>('a' + i))));
    ASSERT_TRUE(Signer::Rotate(root_ + "/store/key", root_ + "/store/tmp").ok());
  }
  EXPECT_EQ(fs::file_size(root_ + "/store/key.old"), 8u * 32);
  // Signed with the newest eight.
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(store->Lookup(keys[i]).ok(), i >= 2) << i;
}

TEST_F(StoreKeysTest, RotationsAtTheSameMomentLoseNoKey) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  std::vector<std::thread> threads;
  for (int i = 0; i < 7; ++i) {
    threads.emplace_back(
        [&] { EXPECT_TRUE(Signer::Rotate(root_ + "/store/key", root_ + "/store/tmp").ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fs::file_size(root_ + "/store/key.old"), 7u * 32);
  EXPECT_TRUE(store->Lookup(a).ok());
}

TEST_F(StoreKeysTest, UnusableListOfOldKeysChangesNothing) {
  auto store = Open();
  const std::string a = Add(*store, "a");
  const std::string old = root_ + "/store/key.old";
  std::ofstream(old) << std::string(32, 'x');
  fs::permissions(old, fs::perms(0644));
  EXPECT_TRUE(store->Lookup(a).ok());
  // A store that is opened says so.
  const auto other = Store::Open({root_ + "/store"});
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(std::string(other.status().message()), ::testing::HasSubstr(old));
  fs::permissions(old, fs::perms(0600));
  std::ofstream(old) << std::string(31, 'x');
  EXPECT_TRUE(absl::IsFailedPrecondition(Store::Open({root_ + "/store"}).status()));
  EXPECT_TRUE(store->Lookup(a).ok());
}

}  // namespace store_keys_test
}  // namespace tensord::store
