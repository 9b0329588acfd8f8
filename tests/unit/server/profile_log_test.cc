// SPDX-License-Identifier: Apache-2.0
// What is kept of profiles, and what is refused of them.
#include "server/profiles/profile_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/sha256.h"
#include "server/profiles/check_profile.h"

namespace tensord::server {
namespace profile_log_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two calls of a program with a kernel and a product.
v1::PutProfileRequest Request(const std::string& program = "one", uint32_t pid = 77) {
  v1::PutProfileRequest request;
  request.mutable_caller()->set_pid(pid);
  request.mutable_caller()->set_job("train");
  v1::Profile& profile = *request.mutable_profile();
  profile.set_function("step");
  for (const uint64_t time : {5000, 6000}) {
    profile.add_calls(time);
    profile.add_gaps(100);
  }
  profile.add_programs()->set_key(Sha256(program));
  profile.add_lines()->set_source("model.py:1 in forward");
  for (const v1::ProfileRow::Kind kind : {v1::ProfileRow::KERNEL, v1::ProfileRow::LIBRARY_CALL}) {
    v1::ProfileRow& row = *profile.add_rows();
    row.set_kind(kind);
    row.set_name(kind == v1::ProfileRow::KERNEL ? "tensord_tanh" : "aten::mm");
    row.add_operators("tanh");
    row.add_lines(0);
    row.add_nanoseconds(1000);
    row.add_nanoseconds(2000);
  }
  return request;
}

v1::Profiles Get(const ProfileLog& log, const v1::GetProfilesRequest& request = {}) {
  v1::Profiles profiles;
  const absl::Status status = log.Get(request, &profiles);
  EXPECT_TRUE(status.ok()) << status;
  return profiles;
}

std::vector<uint64_t> IdsOf(const v1::Profiles& profiles) {
  std::vector<uint64_t> ids;
  for (const v1::StoredProfile& stored : profiles.profiles()) ids.push_back(stored.id());
  return ids;
}

TEST(ProfileLog, KeepsTheLatestOfEachProcess) {
  ProfileLog log(1 << 20, 2);
  EXPECT_THAT(IdsOf(Get(log)), SizeIs(0));
  for (const uint32_t pid : {1, 1, 2, 1}) ASSERT_TRUE(log.Put(Request("one", pid)).ok());
  EXPECT_THAT(IdsOf(Get(log)), ElementsAre(4, 3, 2));
  v1::GetProfilesRequest request;
  request.set_pid(1);
  EXPECT_THAT(IdsOf(Get(log, request)), ElementsAre(4, 2));
  request.set_limit(1);
  const v1::Profiles latest = Get(log, request);
  ASSERT_THAT(IdsOf(latest), ElementsAre(4));
  EXPECT_EQ(latest.profiles(0).profile().rows_size(), 2);
  EXPECT_EQ(latest.profiles(0).caller().job(), "train");
  EXPECT_GT(latest.profiles(0).put_unix(), 0);
  request.set_without_rows(true);
  const v1::Profiles bare = Get(log, request);
  EXPECT_EQ(bare.profiles(0).profile().rows_size(), 0);
  EXPECT_THAT(bare.profiles(0).profile().calls(), ElementsAre(5000, 6000));
}

TEST(ProfileLog, KeepsAboutSoManyBytes) {
  ProfileLog one;
  ASSERT_TRUE(one.Put(Request()).ok());
  const size_t each = one.bytes();
  ProfileLog log(4 * each + each / 2, 100);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(log.Put(Request()).ok());
  EXPECT_THAT(IdsOf(Get(log)), ElementsAre(10, 9, 8, 7));
  EXPECT_EQ(log.bytes(), 4 * each);
}

TEST(ProfileLog, OneThatIsLargeSendsOffNoOther) {
  ProfileLog one;
  ASSERT_TRUE(one.Put(Request()).ok());
  ProfileLog log(5 * one.bytes());
  ASSERT_TRUE(log.Put(Request("one", 1)).ok());
  v1::PutProfileRequest large = Request("two", 2);
  for (int i = 0; i < 10; ++i) *large.mutable_profile()->add_rows() = large.profile().rows(0);
  EXPECT_TRUE(absl::IsResourceExhausted(log.Put(large).status()));
  EXPECT_THAT(IdsOf(Get(log)), ElementsAre(1));
}

TEST(ProfileLog, FindsByProgramJobAndNumber) {
  ProfileLog log;
  ASSERT_TRUE(log.Put(Request("one")).ok());
  ASSERT_TRUE(log.Put(Request("two")).ok());
  v1::GetProfilesRequest request;
  request.set_key_prefix(Sha256("one").substr(0, 4));
  EXPECT_THAT(IdsOf(Get(log, request)), ElementsAre(1));
  v1::Profiles profiles;
  request.set_job("another");
  EXPECT_TRUE(absl::IsNotFound(log.Get(request, &profiles)));
  request.Clear();
  request.set_id(2);
  EXPECT_THAT(IdsOf(Get(log, request)), ElementsAre(2));
  request.set_id(3);
  EXPECT_TRUE(absl::IsNotFound(log.Get(request, &profiles)));
}

TEST(ProfileLog, SeveralProgramsOfOnePrefixAreRefused) {
  ProfileLog log;
  v1::PutProfileRequest request = Request();
  std::string other = request.profile().programs(0).key();
  other.back() = static_cast<char>(other.back() ^ 1);
  request.mutable_profile()->add_programs()->set_key(other);
  ASSERT_TRUE(log.Put(request).ok());
  v1::GetProfilesRequest wanted;
  wanted.set_key_prefix(other.substr(0, 8));
  v1::Profiles profiles;
  EXPECT_TRUE(absl::IsFailedPrecondition(log.Get(wanted, &profiles)));
}

TEST(ProfileLog, RefusesWhatDoesNotFitTogether) {
  const auto most = [](auto* list, int count) {
    while (list->size() < count) *list->Add() = {};
  };
  const std::pair<const char*, std::function<void(v1::Profile*)>> cases[] = {
      {"no call", [](v1::Profile* p) { p->clear_calls(); }},
      {"1001 calls",
       [](v1::Profile* p) {
         while (p->calls_size() <= kMostProfiledCalls) p->add_calls(1);
       }},
      {"one time for each call", [](v1::Profile* p) { p->add_gaps(1); }},
      {"one time for each call", [](v1::Profile* p) { p->set_calls(0, kLongestTime + 1); }},
      {"32 bytes", [](v1::Profile* p) { p->mutable_programs(0)->set_key("short"); }},
      {"step 1 of the profile is of no program",
       [](v1::Profile* p) { p->mutable_rows(1)->set_program(1); }},
      {"step 0 of the profile is of no kind",
       [](v1::Profile* p) { p->mutable_rows(0)->set_kind(v1::ProfileRow::KIND_UNSPECIFIED); }},
      {"is of no kind",
       [](v1::Profile* p) { p->mutable_rows(0)->set_kind(static_cast<v1::ProfileRow::Kind>(9)); }},
      {"has no name", [](v1::Profile* p) { p->mutable_rows(0)->clear_name(); }},
      {"a line that is not there", [](v1::Profile* p) { p->mutable_rows(0)->add_lines(1); }},
      {"one time for each call", [](v1::Profile* p) { p->mutable_rows(0)->add_nanoseconds(1); }},
      {"an operator without a name", [](v1::Profile* p) { p->mutable_rows(0)->add_operators(); }},
      {"131073 operators",
       [](v1::Profile* p) {
         auto& operators = *p->mutable_rows(1)->mutable_operators();
         while (operators.size() < kMostProfileOperators) *operators.Add() = "add";
       }},
      {"131073 lines of steps",
       [](v1::Profile* p) { p->mutable_rows(1)->mutable_lines()->Resize(1 << 17, 0); }},
      {"step 0 of the profile ran too often",
       [](v1::Profile* p) { p->mutable_rows(0)->set_runs(UINT64_MAX); }},
      {"does too much", [](v1::Profile* p) { p->mutable_rows(0)->set_bytes_read(UINT64_MAX); }},
      {"does too much", [](v1::Profile* p) { p->mutable_rows(0)->set_bytes_written(UINT64_MAX); }},
      {"does too much", [](v1::Profile* p) { p->mutable_rows(0)->set_flops(UINT64_MAX); }},
      {"too large", [](v1::Profile* p) { p->set_copy_rate(UINT64_MAX); }},
      {"too large", [](v1::Profile* p) { p->set_dropped_runs(UINT64_MAX); }},
      {"ran too often", [](v1::Profile* p) { p->mutable_programs(0)->set_runs(UINT64_MAX); }},
      {"steps", [&](v1::Profile* p) { most(p->mutable_rows(), kMostProfileRows + 1); }},
      {"programs", [&](v1::Profile* p) { most(p->mutable_programs(), kMostProfiledPrograms + 1); }},
  };
  ProfileLog log;
  for (const auto& [why, spoil] : cases) {
    v1::PutProfileRequest request = Request();
    spoil(request.mutable_profile());
    const auto id = log.Put(request);
    EXPECT_TRUE(absl::IsInvalidArgument(id.status())) << why << ": " << id.status();
    EXPECT_THAT(std::string(id.status().message()), HasSubstr(why));
  }
  EXPECT_EQ(log.bytes(), 0u);
}

TEST(ProfileLog, CutsTextsThatAreLong) {
  ProfileLog log;
  v1::PutProfileRequest request = Request();
  const std::string longer(1 << 16, 'x');
  request.mutable_caller()->set_host(longer);
  request.mutable_profile()->set_function(longer);
  request.mutable_profile()->mutable_rows(0)->set_name(longer);
  request.mutable_profile()->mutable_rows(0)->set_operators(0, longer);
  request.mutable_profile()->mutable_lines(0)->set_text(longer);
  ASSERT_TRUE(log.Put(request).ok());
  EXPECT_LT(log.bytes(), 8u << 10);
  EXPECT_EQ(Get(log).profiles(0).caller().host(), "");
  EXPECT_EQ(Get(log).profiles(0).profile().function().size(), 256u);
}

TEST(ProfileLog, KeepsTheEndsOfSources) {
  ProfileLog log;
  v1::PutProfileRequest request = Request();
  request.mutable_profile()->mutable_lines(0)->set_source(std::string(300, 'd') + "/model.py:123");
  ASSERT_TRUE(log.Put(request).ok());
  const std::string kept = Get(log).profiles(0).profile().lines(0).source();
  EXPECT_EQ(kept.size(), 256u);
  EXPECT_THAT(kept, EndsWith("d/model.py:123"));
}

TEST(ProfileLog, AStepOfManyOperatorsHasTheFirst) {
  ProfileLog log;
  v1::PutProfileRequest request = Request();
  v1::ProfileRow& row = *request.mutable_profile()->mutable_rows(0);
  for (int i = 0; i < 2 * kMostRowOperators; ++i) {
    row.add_operators("add");
    row.add_lines(0);
  }
  ASSERT_TRUE(log.Put(request).ok());
  const v1::ProfileRow kept = Get(log).profiles(0).profile().rows(0);
  EXPECT_EQ(kept.operators_size(), kMostRowOperators);
  EXPECT_EQ(kept.lines_size(), kMostRowOperators);
  EXPECT_EQ(kept.operators(0), "tanh");
}

TEST(ProfileLog, KeepsNoControlCharacters) {
  ProfileLog log;
  v1::PutProfileRequest request = Request();
  v1::Profile& profile = *request.mutable_profile();
  const std::string wild = "a\nb\x1b[2J";
  profile.set_function(wild);
  profile.set_device(wild);
  profile.mutable_programs(0)->set_label(wild);
  profile.mutable_lines(0)->set_source(wild);
  profile.mutable_lines(0)->set_text(wild);
  profile.mutable_rows(0)->set_name(wild);
  profile.mutable_rows(0)->set_operators(0, wild);
  ASSERT_TRUE(log.Put(request).ok());
  const v1::Profile kept = Get(log).profiles(0).profile();
  for (const std::string& text :
       {kept.function(), kept.device(), kept.programs(0).label(), kept.lines(0).source(),
        kept.lines(0).text(), kept.rows(0).name(), kept.rows(0).operators(0)}) {
    EXPECT_EQ(text, "a b [2J");
  }
}

}  // namespace profile_log_test
}  // namespace tensord::server
