// SPDX-License-Identifier: Apache-2.0
// A profile as a table and as flame graphs.
#include "server/ctl/view/profile_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/ctl/view/profile_numbers.h"

namespace tensord::server {
namespace profile_view_test {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMs = 1'000'000;

// Three calls of 10 ms and about, of which a kernel has 4 and a product 3; 8 GB/s is the limit.
v1::Profile Example() {
  v1::Profile profile;
  profile.set_function("step");
  profile.set_device("CPU, 2 threads");
  profile.set_copy_rate(8'000'000'000);
  for (const uint64_t time : {10, 12, 9}) profile.add_calls(time * kMs);
  for (int i = 0; i < 3; ++i) profile.add_gaps(kMs);
  v1::ProfiledProgram& program = *profile.add_programs();
  program.set_key(std::string(32, '\xab'));
  program.set_label("forward");
  program.set_runs(3);
  profile.add_lines()->set_source("model.py:7 in forward");
  profile.add_lines()->set_source("model.py:9 in forward");
  v1::ProfileRow& kernel = *profile.add_rows();
  kernel.set_kind(v1::ProfileRow::KERNEL);
  kernel.set_name("tensord_gelu");
  kernel.add_operators("add");
  kernel.add_operators("gelu");
  kernel.add_lines(1);
  kernel.add_lines(0);
  kernel.set_runs(6);  // two a call
  for (const uint64_t time : {4, 5, 4}) kernel.add_nanoseconds(time * kMs);
  kernel.set_bytes_read(6'000'000);
  kernel.set_bytes_written(2'000'000);
  v1::ProfileRow& product = *profile.add_rows();
  product.set_kind(v1::ProfileRow::LIBRARY_CALL);
  product.set_name("aten::mm");
  product.add_operators("mm");  // said already
  product.set_runs(3);
  for (const uint64_t time : {3, 3, 2}) product.add_nanoseconds(time * kMs);
  product.set_flops(6'000'000'000);
  return profile;
}

std::string LineWith(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(ProfileView, ATableHasPartsAndSteps) {
  const std::string table = ProfileTable(Example(), 0);
  EXPECT_THAT(table,
              HasSubstr("step: 3 calls of 10.0 ms (9.0 ms to 12.0 ms); CPU, 2 threads; a copy "
                        "moves 8.0 GB/s\n"));
  EXPECT_THAT(LineWith(table, "kernels"), HasSubstr("4.0 ms  40.0 %"));
  EXPECT_THAT(LineWith(table, "library calls"), HasSubstr("3.0 ms  30.0 %"));
  EXPECT_THAT(LineWith(table, "gaps"), HasSubstr("1.0 ms  10.0 %"));
  EXPECT_THAT(LineWith(table, "outside of programs"), HasSubstr("2.0 ms  20.0 %"));
  EXPECT_THAT(table, Not(HasSubstr("zero fills")));
  // 6 runs of 8 MB in 13 ms are 3.7 GB/s, 46 % of what a copy moves.
  const std::string kernel = LineWith(table, "tensord_gelu (add, gelu)");
  EXPECT_THAT(kernel, HasSubstr(" 2  4.0 ms  5.0 ms  15.3 MiB   3.7   46 %"));
  EXPECT_THAT(kernel, HasSubstr("model.py:9 in forward and 1 more"));
  EXPECT_THAT(LineWith(table, "aten::mm"), HasSubstr("2250.0  aten::mm  "));
  EXPECT_THAT(kernel, HasSubstr("forward abababab"));
  EXPECT_THAT(ProfileTable(Example(), 1), HasSubstr("and 1 more steps\n"));
}

TEST(ProfileView, WhatIsNotKnownIsNotShown) {
  v1::Profile profile = Example();
  profile.set_copy_rate(0);
  EXPECT_FALSE(NumbersOf(profile, profile.rows(0)).limit.has_value());
  profile.clear_rows();
  EXPECT_THAT(ProfileTable(profile, 0), HasSubstr("no compiled program ran in them"));
  EXPECT_THAT(ProfileTable(v1::Profile(), 0), HasSubstr("profile: no calls"));
  EXPECT_EQ(FoldedStacks(v1::Profile()), "");
}

// A step of one call in three has the rate of that call, and its place.
TEST(ProfileView, RatesAreThoseOfAllCallsTogether) {
  v1::Profile profile = Example();
  v1::ProfileRow& rare = *profile.add_rows();
  rare = profile.rows(0);
  rare.set_name("tensord_rare");
  rare.set_runs(1);
  for (const int call : {0, 1}) rare.set_nanoseconds(call, 0);
  rare.set_nanoseconds(2, 20 * kMs);
  rare.set_flops(10'000'000);
  const RowNumbers numbers = NumbersOf(profile, rare);
  EXPECT_EQ(numbers.nanoseconds, 0u);
  EXPECT_DOUBLE_EQ(numbers.bytes_per_second, 0.4e9);
  EXPECT_DOUBLE_EQ(numbers.limit.value_or(0), 0.05);
  EXPECT_DOUBLE_EQ(numbers.flops_per_second, 0.5e9);
  const std::string table = ProfileTable(profile, 1);
  EXPECT_THAT(table, HasSubstr("tensord_rare"));
  EXPECT_THAT(table, Not(HasSubstr("tensord_gelu")));
}

TEST(ProfileView, PartsThatOverlapAreSaid) {
  v1::Profile profile = Example();
  EXPECT_FALSE(Overlap(profile));
  for (int call = 0; call < 3; ++call) profile.mutable_rows(0)->set_nanoseconds(call, 8 * kMs);
  EXPECT_TRUE(Overlap(profile));
  EXPECT_THAT(ProfileTable(profile, 0), HasSubstr("programs ran at the same time\n"));
}

TEST(ProfileView, LargeNumbersAreShown) {
  v1::Profile profile = Example();
  v1::ProfileRow& row = *profile.mutable_rows(0);
  row.set_runs(3 * (uint64_t{1} << 32));
  row.set_bytes_read(uint64_t{1} << 60);
  row.set_bytes_written(0);
  // 2^92 bytes in a call are 2^52 TiB.
  EXPECT_THAT(ProfileTable(profile, 0), HasSubstr("4503599627370496.0 TiB"));
}

TEST(ProfileView, LongStepsAreCutBetweenLetters) {
  v1::Profile profile = Example();
  std::string name(56, 'x');
  profile.mutable_rows(0)->set_name(name + "é and more");
  EXPECT_THAT(ProfileTable(profile, 0), HasSubstr(name + "...  "));
}

TEST(ProfileView, WhatJobsSayControlsNothing) {
  v1::Profile profile = Example();
  profile.set_function("a\nb");
  profile.mutable_rows(0)->set_name("\x1b[2Jkernel");
  const std::string folded = FoldedStacks(profile);
  EXPECT_EQ(std::count(folded.begin(), folded.end(), '\n'), 4);
  EXPECT_THAT(folded, HasSubstr("a b;gaps"));
  const std::string table = ProfileTable(profile, 0);
  EXPECT_THAT(table, HasSubstr("a b: 3 calls"));
  EXPECT_THAT(table, HasSubstr(" [2Jkernel"));
  v1::Profiles profiles;
  profiles.add_profiles()->mutable_caller()->set_job("\x1b[2Jjob");
  for (const std::string& text : {folded, table, ProfileList(profiles, 0), Speedscope(profile)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("u001b")));
  }
}

TEST(ProfileView, FoldedStacksGoFromTheFunctionInwards) {
  EXPECT_EQ(FoldedStacks(Example()),
            "step;forward abababab;model.py:9 in forward;tensord_gelu (add, gelu) 4000000\n"
            "step;forward abababab;aten::mm 3000000\n"
            "step;gaps 1000000\n"
            "step;outside of programs 2000000\n");
  v1::Profile profile = Example();
  profile.set_function("a;b");
  EXPECT_THAT(FoldedStacks(profile), HasSubstr("a,b;gaps"));
}

TEST(ProfileView, SpeedscopeHasTheSame) {
  const json content = json::parse(Speedscope(Example()));
  EXPECT_EQ(content["$schema"], "https://www.speedscope.app/file-format-schema.json");
  const json& profile = content["profiles"][0];
  EXPECT_EQ(profile["unit"], "nanoseconds");
  EXPECT_EQ(profile["endValue"], 10 * kMs);
  ASSERT_EQ(profile["samples"].size(), profile["weights"].size());
  EXPECT_THAT(profile["weights"].get<std::vector<uint64_t>>(),
              ElementsAre(4 * kMs, 3 * kMs, kMs, 2 * kMs));
  const json& frames = content["shared"]["frames"];
  const size_t first = profile["samples"][0][0], last = profile["samples"][0][3];
  EXPECT_EQ(frames[first]["name"], "step");
  EXPECT_EQ(frames[last]["name"], "tensord_gelu (add, gelu)");
}

TEST(ProfileView, AListHasALineForEach) {
  v1::Profiles profiles;
  v1::StoredProfile& stored = *profiles.add_profiles();
  stored.set_id(3);
  stored.set_put_unix(1000);
  stored.mutable_caller()->set_job("pretrain");
  stored.mutable_caller()->set_pid(77);
  *stored.mutable_profile() = Example();
  const std::string list = ProfileList(profiles, 1060);
  EXPECT_THAT(LineWith(list, "pretrain"), HasSubstr("3  60 s  step"));
}

}  // namespace profile_view_test
}  // namespace tensord::server
