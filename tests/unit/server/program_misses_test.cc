// SPDX-License-Identifier: Apache-2.0
#include "server/compile/program_misses.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord::server {
namespace program_misses_test {

v1::ProgramMiss Miss(const std::string& key, const std::string& reason,
                     const std::string& job = "") {
  v1::ProgramMiss miss;
  miss.set_key(key);
  miss.set_reason(reason);
  miss.mutable_caller()->set_job(job);
  return miss;
}

v1::ListMissesReply List(const ProgramMisses& misses, const std::string& prefix = "",
                         uint32_t limit = 0, const std::string& job = "") {
  v1::ListMissesRequest request;
  request.set_key_prefix(prefix);
  request.set_limit(limit);
  request.set_job(job);
  v1::ListMissesReply reply;
  misses.List(request, &reply);
  return reply;
}

TEST(ProgramMissesTest, OfOneProgramThereIsOneEntryWithTheLatestReason) {
  ProgramMisses misses(10);
  misses.Add(Miss("one", "new"));
  misses.Add(Miss("other", "graph"));
  misses.Add(Miss("one", "evicted"));
  const auto all = List(misses);
  ASSERT_EQ(all.programs_size(), 2);
  EXPECT_EQ(all.programs(0).reason(), "evicted");
  EXPECT_EQ(all.programs(0).count(), 2u);
  EXPECT_EQ(all.programs(1).key(), "other");
}

TEST(ProgramMissesTest, ListsByPrefixLimitAndJob) {
  ProgramMisses misses(10);
  misses.Add(Miss("ab1", "new", "train"));
  misses.Add(Miss("ac", "new", "serve"));
  misses.Add(Miss("ab2", "new", "serve"));
  EXPECT_EQ(List(misses, "ab").programs_size(), 2);
  EXPECT_EQ(List(misses, "", 1).programs(0).key(), "ab2");
  EXPECT_EQ(List(misses, "", 0, "serve").programs_size(), 2);
  EXPECT_EQ(List(misses, "ab", 0, "train").programs(0).key(), "ab1");
  EXPECT_EQ(List(misses, "x").programs_size(), 0);
}

TEST(ProgramMissesTest, TheOldestGoes) {
  ProgramMisses misses(2);
  misses.Add(Miss("a", "new"));
  misses.Add(Miss("b", "new"));
  misses.Add(Miss("a", "lost"));
  misses.Add(Miss("c", "new"));  // b goes
  EXPECT_EQ(List(misses).programs_size(), 2);
  EXPECT_EQ(List(misses, "b").programs_size(), 0);
  misses.Add(Miss("b", "new"));
  EXPECT_EQ(List(misses, "b").programs(0).count(), 1u);
}

}  // namespace program_misses_test
}  // namespace tensord::server
