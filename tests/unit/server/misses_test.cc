// SPDX-License-Identifier: Apache-2.0
#include "server/frames/misses.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord::server {
namespace misses_test {

v1::FrameMiss Miss(const std::string& key, const std::string& guard, const std::string& found) {
  v1::FrameMiss miss;
  miss.set_key(key);
  miss.set_guard(guard);
  miss.set_found(found);
  miss.set_count(1);
  return miss;
}

TEST(MissesTest, OfOneFrameAndGuardThereIsOneEntryWithTheLatestValue) {
  Misses misses(10);
  misses.Add(Miss("one", "n == 5", "n is 6"), 100);
  misses.Add(Miss("other", "n == 5", "n is 6"), 101);
  misses.Add(Miss("one", "n == 5", "n is 7"), 102);
  const auto all = misses.List("", 0);
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].key(), "one");
  EXPECT_EQ(all[0].found(), "n is 7");
  EXPECT_EQ(all[0].count(), 2);
  EXPECT_EQ(all[0].last_unix(), 102);
  EXPECT_EQ(all[1].key(), "other");
}

TEST(MissesTest, ListsByPrefixAndLimit) {
  Misses misses(10);
  misses.Add(Miss("ab1", "a", ""), 1);
  misses.Add(Miss("ac", "b", ""), 2);
  misses.Add(Miss("ab2", "c", ""), 3);
  const auto found = misses.List("ab", 0);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].key(), "ab2");
  EXPECT_EQ(misses.List("", 1).size(), 1);
  EXPECT_TRUE(misses.List("x", 0).empty());
}

TEST(MissesTest, ListsOfOneJob) {
  Misses misses(10);
  const auto of_job = [](const char* key, const char* job) {
    v1::FrameMiss miss = Miss(key, "a", "");
    miss.mutable_caller()->set_job(job);
    return miss;
  };
  misses.Add(of_job("one", "train"), 1);
  misses.Add(of_job("two", "train"), 2);
  misses.Add(of_job("three", "serve"), 3);
  misses.Add(of_job("one", "serve"), 4);  // the latest counts
  const auto found = misses.List("", 0, "train");
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].key(), "two");
  EXPECT_EQ(misses.List("", 1, "serve").size(), 1);
  EXPECT_EQ(misses.List("", 0, "serve").size(), 2);
}

TEST(MissesTest, TheOldestGoesAndIsCountedAnewAfterwards) {
  Misses misses(2);
  misses.Add(Miss("a", "g", ""), 1);
  misses.Add(Miss("b", "g", ""), 2);
  misses.Add(Miss("a", "g", ""), 3);
  misses.Add(Miss("c", "g", ""), 4);  // b goes
  ASSERT_EQ(misses.List("", 0).size(), 2);
  EXPECT_TRUE(misses.List("b", 0).empty());
  EXPECT_EQ(misses.List("a", 0)[0].count(), 2);
  misses.Add(Miss("b", "g", ""), 5);
  EXPECT_EQ(misses.List("b", 0)[0].count(), 1);
}

TEST(MissesTest, LongTextsAreCutAtACharacter) {
  Misses misses(2);
  misses.Add(Miss("a", std::string(499, 'x') + "\u00e9", std::string(1000, 'y')), 1);
  const auto all = misses.List("", 0);
  EXPECT_EQ(all[0].guard(), std::string(499, 'x'));
  EXPECT_EQ(all[0].found().size(), 500);
}

}  // namespace misses_test
}  // namespace tensord::server
