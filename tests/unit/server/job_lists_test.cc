// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_lists.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>

#include "base/sha256.h"
#include "tests/unit/server/filled_store.h"

namespace tensord::server {
namespace job_lists_test {

using ::testing::ElementsAre;

int64_t Today() { return absl::ToUnixSeconds(absl::Now()) / (24 * 3600); }

v1::JobList ListOf(const std::vector<std::pair<std::string, int64_t>>& uses) {
  v1::JobList list;
  list.set_job("train");
  for (const auto& [name, day] : uses) {
    list.add_used()->set_name(name);
    list.mutable_used()->rbegin()->set_day(day);
  }
  return list;
}

std::vector<std::string> Names(const v1::JobList& list) {
  std::vector<std::string> names;
  for (const v1::JobUse& use : list.used()) names.push_back(use.name());
  return names;
}

class JobListsTest : public archive::FilledStoreTest {
 protected:
  std::vector<std::string> Stored(const std::string& job) {
    return Names(ReadJobList(*store_, job).value());
  }
};

const fleet::Name kOne{"program", Sha256("one")};
const fleet::Name kTwo{"program", Sha256("two")};

TEST_F(JobListsTest, MergesByTheLastUse) {
  const int64_t today = Today();
  const auto merged = Merge(ListOf({{"b", today - 3}, {"a", today}, {"old", today - 31}}),
                            ListOf({{"c", today - 30}, {"b", today - 1}}));
  EXPECT_EQ(merged.job(), "train");
  EXPECT_THAT(Names(merged), ElementsAre("a", "b", "c"));
  EXPECT_EQ(merged.used(1).day(), today - 1);
  EXPECT_EQ(Merge(v1::JobList(), merged).SerializeAsString(), merged.SerializeAsString());
}

TEST_F(JobListsTest, AListIsBounded) {
  const int64_t today = Today();
  std::vector<std::pair<std::string, int64_t>> uses;
  for (int i = 0; i < 20'000; ++i) uses.emplace_back(std::to_string(i), today - (i >= 10));
  const auto names = Names(Merge(ListOf(uses), v1::JobList()));
  EXPECT_EQ(names.size(), 16384u);
  for (int i = 0; i < 10; ++i) EXPECT_THAT(names, ::testing::Contains(std::to_string(i)));
}

TEST_F(JobListsTest, KeepsWhatJobsUsed) {
  {
    JobLists lists(store_.get(), nullptr, absl::Hours(1));
    lists.Used("train", kOne);
    lists.Used("train", kOne);
    lists.Used("test", kTwo);
    lists.Used("", kTwo);
    EXPECT_TRUE(Stored("train").empty()) << "it is written a while later";
    lists.Flush();
    EXPECT_THAT(Stored("train"), ElementsAre(kOne.Path()));
    EXPECT_THAT(Stored("test"), ElementsAre(kTwo.Path()));
    EXPECT_TRUE(Stored("").empty());
  }
  // The next daemon's come to them.
  JobLists lists(store_.get(), nullptr, absl::Milliseconds(1));
  lists.Used("train", kTwo);
  for (int i = 0; i < 1000 && Stored("train").size() < 2; ++i)
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_THAT(Stored("train"), ::testing::UnorderedElementsAre(kOne.Path(), kTwo.Path()));
}

TEST_F(JobListsTest, ManyJobsAreForgottenInMemoryOnly) {
  JobLists lists(store_.get(), nullptr, absl::Hours(1));
  for (int i = 0; i < 100; ++i) {
    lists.Used("job " + std::to_string(i), kOne);
    lists.Flush();
  }
  lists.Used("job 0", kTwo);
  lists.Flush();
  EXPECT_EQ(Stored("job 0").size(), 2u);
  EXPECT_EQ(Stored("job 99").size(), 1u);
}

TEST_F(JobListsTest, TheStoreKeepsTheLatest) {
  for (int i = 0; i < 300; ++i) store_->PutJobList(Sha256(std::to_string(i)), "list");
  size_t kept = 0;
  for (const auto& file : std::filesystem::directory_iterator(store_->root() + "/jobs")) {
    kept += file.is_regular_file();
  }
  EXPECT_EQ(kept, 256u);
}

TEST_F(JobListsTest, WhatCannotBeReadIsNotReplaced) {
  {
    JobLists before(store_.get(), nullptr, absl::Hours(1));
    before.Used("train", kOne);
    before.Flush();
  }
  const std::string file = store_->root() + "/jobs/" + ToHex(JobName("train").key);
  const std::string kept = file + ".kept";
  std::filesystem::rename(file, kept);
  std::filesystem::create_symlink(file, file);  // which cannot be read, and could be replaced
  EXPECT_FALSE(ReadJobList(*store_, "train").ok());
  JobLists lists(store_.get(), nullptr, absl::Hours(1));
  lists.Used("train", kTwo);
  lists.Flush();
  EXPECT_TRUE(std::filesystem::is_symlink(file));
  // It is tried again.
  std::filesystem::remove(file);
  std::filesystem::rename(kept, file);
  lists.Flush();
  EXPECT_EQ(Stored("train").size(), 2u);
}

TEST_F(JobListsTest, WhatIsDamagedIsGatheredAgain) {
  store_->PutJobList(JobName("train").key, "\xff\xff");
  EXPECT_TRUE(Stored("train").empty());
  JobLists lists(store_.get(), nullptr, absl::Hours(1));
  lists.Used("train", kOne);
  lists.Flush();
  EXPECT_EQ(Stored("train").size(), 1u);
}

}  // namespace job_lists_test
}  // namespace tensord::server
