// SPDX-License-Identifier: Apache-2.0
// What the numbers of a recorded profile come to: as in Python and on the page, which
// tests/e2e/test_profile_numbers.py tries with the same file.
#include "server/ctl/view/profile_numbers.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tensord::server {
namespace profile_numbers_test {

using nlohmann::json;

TEST(ProfileNumbers, AreThoseOfTheRecordedProfile) {
  std::ifstream file(TENSORD_RECORDED_PROFILE);
  const json recorded = json::parse(file);
  v1::Profile profile;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(recorded["profile"].dump(), &profile).ok());
  const json& expected = recorded["expected"];

  EXPECT_EQ(profile.calls(TypicalCall(profile)), expected["call"]);
  EXPECT_EQ(MedianOf(profile.calls()), expected["call"]);
  json parts = json::array();
  for (const ProfilePart& part : PartsOf(profile)) parts.push_back({part.name, part.nanoseconds});
  EXPECT_EQ(parts, expected["parts"]);

  ASSERT_EQ(static_cast<size_t>(profile.rows_size()), expected["rows"].size());
  for (int i = 0; i < profile.rows_size(); ++i) {
    const v1::ProfileRow& row = profile.rows(i);
    SCOPED_TRACE(row.name());
    const auto at = static_cast<size_t>(i);
    const json& wanted = expected["rows"][at];
    const RowNumbers numbers = NumbersOf(profile, row);
    EXPECT_EQ(numbers.nanoseconds, wanted["ns"]);
    EXPECT_DOUBLE_EQ(numbers.runs, wanted["runs"]);
    EXPECT_DOUBLE_EQ(numbers.bytes, wanted["moves"]);
    EXPECT_DOUBLE_EQ(numbers.bytes_per_second, wanted["rate"]);
    EXPECT_DOUBLE_EQ(numbers.flops_per_second, wanted["flops"]);
    ASSERT_EQ(numbers.limit.has_value(), !wanted["limit"].is_null());
    if (numbers.limit) {
      EXPECT_DOUBLE_EQ(*numbers.limit, wanted["limit"]);
    }
    EXPECT_EQ(StepName(row), expected["steps"][at]);
    EXPECT_EQ(LineOf(profile, row), expected["lines"][at]);
  }
  for (int i = 0; i < profile.programs_size(); ++i) {
    EXPECT_EQ(ProgramName(profile.programs(i)), expected["programs"][static_cast<size_t>(i)]);
  }
}

}  // namespace profile_numbers_test
}  // namespace tensord::server
