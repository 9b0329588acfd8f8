// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "server/ctl/view/quantile.h"

namespace tensord::server {
namespace top_view_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// An update after `seconds`, in which `requests` were answered, all of them found.
v1::StatsUpdate After(double seconds, uint64_t requests) {
  v1::StatsUpdate update;
  update.set_elapsed_nanoseconds(static_cast<uint64_t>(seconds * 1e9));
  update.mutable_stats()->set_version("1.2");
  update.mutable_growth()->set_requests(requests);
  update.mutable_growth()->set_hits(requests);
  return update;
}

TEST(SparklineTest, TheHighestIsFull) {
  EXPECT_EQ(Sparkline({0, 1, 7}), "▁▂█");
  EXPECT_EQ(Sparkline({0, 0}), "▁▁");
  EXPECT_EQ(Sparkline({kNone, 5}), " █");
  EXPECT_EQ(Sparkline({std::numeric_limits<double>::infinity(), 2}), "██");
  EXPECT_EQ(Sparkline({}), "");
}

TEST(QuantileTest, IsTheBoundOfItsBucket) {
  v1::Latency latency;
  for (const double bound : {0.1, 0.2}) latency.add_bounds_seconds(bound);
  for (const uint64_t count : {90, 9, 1}) latency.add_counts(count);
  EXPECT_EQ(Quantile(latency, 0.5), 0.1);
  EXPECT_EQ(Quantile(latency, 0.9), 0.1);
  EXPECT_EQ(Quantile(latency, 0.99), 0.2);
  EXPECT_TRUE(std::isinf(Quantile(latency, 1)));
  EXPECT_TRUE(std::isnan(Quantile(v1::Latency(), 0.5)));
}

TEST(QuantileTest, IsShownWithItsUnit) {
  EXPECT_EQ(HumanSeconds(0.0025), "2.5 ms");
  EXPECT_EQ(HumanSeconds(300), "300.00 s");
  EXPECT_EQ(HumanSeconds(std::numeric_limits<double>::infinity()), "long");
  EXPECT_EQ(HumanSeconds(kNone), "-");
}

TEST(ShortenedTest, CountsCharactersNotBytes) {
  EXPECT_EQ(Shortened("▁▂▃", 2), "▁▂");
  EXPECT_EQ(Shortened("▁▂▃", 3), "▁▂▃");
  EXPECT_EQ(Shortened("abc", 0), "");
}

TEST(TopViewTest, RatesAreOfTheTimeThatPassed) {
  TopView view;
  view.Add(After(0.5, 3));
  view.Add(After(2, 3));
  EXPECT_THAT(view.Screen(80),
              Contains(AllOf(StartsWith("requests/s"), HasSubstr(" 1.5 "), EndsWith("█▃"))));
  EXPECT_THAT(view.Screen(80), Contains(AllOf(StartsWith("found "), HasSubstr("100.0 %"))));
}

TEST(TopViewTest, TheFirstUpdateHasNoRates) {
  TopView view;
  v1::StatsUpdate first;
  first.mutable_stats()->set_workers(3);
  view.Add(first);
  EXPECT_THAT(view.Screen(80), Contains(AllOf(StartsWith("requests/s"), EndsWith(" -"))));
  EXPECT_THAT(view.Screen(80), Contains(AllOf(StartsWith("workers"), EndsWith(" 3  █"))));
}

TEST(TopViewTest, NoLineIsWiderThanTheScreen) {
  TopView view;
  v1::StatsUpdate update = After(1, 1);
  update.mutable_stats()->set_store(std::string(300, 's'));
  for (int i = 0; i < 600; ++i) view.Add(update);
  for (const size_t width : {0, 10, 40, 80, 1000}) {
    for (const std::string& line : view.Screen(width)) EXPECT_EQ(Shortened(line, width), line);
  }
  // The latest are shown.
  view.Add(After(1, 1000));
  EXPECT_THAT(view.Screen(50), Contains(AllOf(StartsWith("requests/s"), EndsWith("▁█"))));
}

TEST(TopViewTest, WhatIsAmissAndAFleetAreShownWhereTheyAre) {
  TopView view;
  v1::StatsUpdate update = After(1, 1);
  view.Add(update);
  EXPECT_THAT(view.Screen(80), Not(Contains(HasSubstr("fleet"))));
  EXPECT_THAT(view.Screen(80), Not(Contains(HasSubstr("WARNING"))));
  update.mutable_stats()->set_fleet("redis://host");
  update.mutable_stats()->set_store_problem("the disk is full");
  view.Add(update);
  EXPECT_THAT(view.Screen(80), Contains(StartsWith("fleet hits/s")));
  EXPECT_THAT(view.Screen(80), Contains(AllOf(HasSubstr("WARNING"), HasSubstr("disk is full"))));
}

TEST(TopViewTest, ColumnsStandUnderTheirNames) {
  TopView view;
  v1::StatsUpdate update = After(1, 12);
  update.mutable_stats()->set_bytes_stored(3 << 20);
  view.Add(update);
  const std::string head = TopView::LineHead(), line = view.Line();
  EXPECT_EQ(head.size(), line.size());
  EXPECT_EQ(head.find("req/s") + 5, line.find("12") + 2);
  EXPECT_THAT(head, EndsWith("store"));
  EXPECT_THAT(line, EndsWith("3.0 MiB"));
}

}  // namespace top_view_test
}  // namespace tensord::server
