// SPDX-License-Identifier: Apache-2.0
// What the statistics are called in Prometheus, and what they have grown by.
#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "server/monitoring/endpoint.h"
#include "server/monitoring/families.h"
#include "server/monitoring/growth.h"
#include "server/monitoring/metric_table.h"
#include "server/rpc/host_and_port.h"

namespace tensord::server {
namespace monitoring_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Field = google::protobuf::FieldDescriptor;

std::string TextOf(const v1::Stats& stats) { return ToText(ToFamilies(stats)); }

void SetField(v1::Stats* stats, const Field& field) {
  const google::protobuf::Reflection& reflection = *stats->GetReflection();
  if (field.name() == "stages") {
    stats->add_stages()->set_nanoseconds(7);
  } else if (field.name() == "latencies") {
    stats->add_latencies()->add_counts(7);
  } else if (field.name() == "misses") {
    stats->add_misses()->set_count(7);
  } else if (field.name() == "frames_unrecorded") {
    stats->add_frames_unrecorded()->set_count(7);
  } else if (field.cpp_type() == Field::CPPTYPE_STRING) {
    reflection.SetString(stats, &field, "7");
  } else {
    ASSERT_EQ(field.cpp_type(), Field::CPPTYPE_UINT64) << field.name() << " has no metric";
    reflection.SetUInt64(stats, &field, 7);
  }
}

TEST(MonitoringTest, EveryFieldOfTheStatisticsIsShown) {
  const std::set<std::string> names_of_things = {"pid", "store", "fleet"};
  const std::string nothing = TextOf({});
  const auto& fields = *v1::Stats::descriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    if (names_of_things.count(fields.field(i)->name()) != 0) continue;
    v1::Stats stats;
    SetField(&stats, *fields.field(i));
    EXPECT_NE(TextOf(stats), nothing) << fields.field(i)->name() << " wants a (metric)";
  }
}

TEST(MonitoringTest, NamesFollowTheConventions) {
  const std::regex form("tensord_[a-z]+(_[a-z]+)*");
  const auto ends = [](std::string name, const std::string& unit) {
    if (name.ends_with("_total")) name.resize(name.size() - 6);
    return name.ends_with(unit);
  };
  std::set<std::string> names, lines;
  std::string last;
  for (const MetricField& line : MetricTable()) {
    const v1::Metric& metric = *line.metric;
    const std::string &name = metric.name(), field = line.field->name();
    EXPECT_TRUE(std::regex_match(name, form)) << name;
    EXPECT_TRUE(lines.insert(name + metric.label()).second) << name << " is there twice";
    if (name != last) {
      EXPECT_TRUE(names.insert(name).second) << "fields of " << name << " do not adjoin";
      EXPECT_TRUE(metric.help().ends_with(".")) << name << " says no sentence";
    } else {
      EXPECT_EQ(metric.help(), "") << name << " says it twice";
      EXPECT_NE(metric.label(), "") << name;
    }
    last = name;
    EXPECT_EQ(ends(name, "_seconds"), field.find("seconds") != std::string::npos) << name;
    EXPECT_EQ(ends(name, "_bytes"), field.find("bytes") != std::string::npos) << name;
  }
}

TEST(MonitoringTest, ValuesAreInBaseUnits) {
  v1::Stats stats;
  stats.set_version("1.2");
  stats.set_hits(5);
  stats.set_hits_store(3);
  stats.set_hits_fleet(2);
  stats.add_misses()->set_reason("evicted");
  stats.mutable_misses(0)->set_count(4);
  stats.set_lookup_nanoseconds(1'500'000'000);
  stats.set_resident_bytes(4096);
  stats.set_store_problem("the disk is full");
  const std::string text = TextOf(stats);
  for (const char* line : {
           "tensord_build_info{version=\"1.2\"} 1\n",
           "# TYPE tensord_requests_total counter\n",
           "tensord_requests_total{outcome=\"hit\"} 5\n",
           "tensord_requests_total{outcome=\"compiled\"} 0\n",
           "tensord_lookup_seconds_total 1.5\n",
           "# TYPE tensord_resident_memory_bytes gauge\n",
           "tensord_resident_memory_bytes 4096\n",
           "tensord_store_problem 1\n",
           "tensord_fleet_problem 0\n",
           "tensord_hits_total{tier=\"store\"} 3\n",
           "tensord_hits_total{tier=\"fleet\"} 2\n",
           "tensord_program_misses_total{reason=\"evicted\"} 4\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(MonitoringTest, PassesAreNotAddedToTheirStages) {
  v1::Stats stats;
  const auto add = [&](const char* stage, uint64_t nanoseconds) {
    v1::StageTime* time = stats.add_stages();
    time->set_stage(stage);
    time->set_nanoseconds(nanoseconds);
  };
  add("rewrite", 3'000'000'000);
  add("rewrite/a\"b", 2'000'000'000);
  const std::string text = TextOf(stats);
  EXPECT_THAT(text, HasSubstr("tensord_compile_stage_seconds_total{stage=\"rewrite\"} 3\n"));
  EXPECT_THAT(
      text, HasSubstr("tensord_compile_pass_seconds_total{stage=\"rewrite\",pass=\"a\\\"b\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("stage_seconds_total{stage=\"rewrite/")));
}

TEST(MonitoringTest, BucketsOfLatenciesAddUp) {
  v1::Stats stats;
  v1::Latency* latency = stats.add_latencies();
  latency->set_outcome("hit");
  latency->add_bounds_seconds(0.5);
  latency->add_bounds_seconds(2);
  for (const uint64_t count : {3, 4, 5}) latency->add_counts(count);
  latency->set_nanoseconds(20'000'000'000);
  const std::string text = TextOf(stats);
  const std::string name = "tensord_request_duration_seconds";
  for (const char* line :
       {"_bucket{outcome=\"hit\",le=\"0.5\"} 3\n", "_bucket{outcome=\"hit\",le=\"2\"} 7\n",
        "_bucket{outcome=\"hit\",le=\"+Inf\"} 12\n", "_count{outcome=\"hit\"} 12\n",
        "_sum{outcome=\"hit\"} 20\n"}) {
    EXPECT_THAT(text, HasSubstr(name + line));
  }
}

TEST(MonitoringTest, WhatJobsSayIsNoLabel) {
  v1::Stats stats;
  for (int i = 0; i < 3; ++i) {
    v1::UnrecordedFrame* unrecorded = stats.add_frames_unrecorded();
    unrecorded->set_reason("reason " + std::to_string(i));
    unrecorded->set_count(2);
  }
  EXPECT_THAT(TextOf(stats), HasSubstr("tensord_captures_unrecorded_total 6\n"));
  EXPECT_THAT(TextOf(stats), Not(HasSubstr("reason 1")));
}

TEST(GrowthTest, OnlyOfWhatGrows) {
  v1::Stats before, now;
  before.set_requests(10);
  now.set_requests(14);
  before.set_worker_cpu_nanoseconds(5);
  now.set_worker_cpu_nanoseconds(5);
  now.set_workers(3);
  now.set_version("1");
  now.set_store_problem("full");
  // A counter that is read a moment before another.
  before.set_hits(2);
  now.set_hits(1);
  v1::Stats expected;
  expected.set_requests(4);
  EXPECT_EQ(Growth(now, before).DebugString(), expected.DebugString());
}

TEST(GrowthTest, OfStagesReasonsAndLatencies) {
  const auto make = [](uint64_t lower, uint64_t count) {
    v1::Stats stats;
    v1::StageTime* stage = stats.add_stages();
    stage->set_stage("lower");
    stage->set_nanoseconds(lower);
    v1::UnrecordedFrame* unrecorded = stats.add_frames_unrecorded();
    unrecorded->set_reason("a generator");
    unrecorded->set_count(count);
    v1::MissCount* miss = stats.add_misses();
    miss->set_reason("inputs");
    miss->set_count(lower);
    v1::Latency* latency = stats.add_latencies();
    latency->set_outcome("hit");
    latency->add_bounds_seconds(1);
    latency->add_counts(count);
    latency->add_counts(0);
    latency->set_nanoseconds(100 * count);
    return stats;
  };
  v1::Stats now = make(70, 5);
  now.add_stages()->set_stage("jit");
  now.mutable_stages(1)->set_nanoseconds(9);
  v1::Stats expected = make(20, 3);
  expected.add_stages()->set_stage("jit");
  expected.mutable_stages(1)->set_nanoseconds(9);
  EXPECT_EQ(Growth(now, make(50, 2)).DebugString(), expected.DebugString());

  v1::Stats still = Growth(now, now);
  EXPECT_EQ(still.stages_size(), 0);
  EXPECT_EQ(still.frames_unrecorded_size(), 0);
  EXPECT_EQ(still.misses_size(), 0);
  EXPECT_EQ(still.latencies(0).counts(0), 0u);
}

TEST(HostAndPortTest, ThisHostUnlessSaidOtherwise) {
  const std::pair<const char*, const char*> addresses[] = {
      {"9464", "127.0.0.1:9464"},           {"localhost:80", "127.0.0.1:80"},
      {"127.0.0.1:0", "127.0.0.1:0"},       {"0.0.0.0:9464", "0.0.0.0:9464"},
      {"10.1.2.3:65535", "10.1.2.3:65535"},
  };
  for (const auto& [text, expected] : addresses) EXPECT_EQ(*HostAndPort(text), expected) << text;
  for (const char* text : {"", ":", ":80", "host:80", "1.2.3:80", "::1:80", "[::1]:80", "[]:1",
                           "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80s",
                           "127.0.0.1:80,0.0.0.0:81", "unix:/x"}) {
    EXPECT_FALSE(HostAndPort(text).ok()) << text;
  }
}

TEST(MetricsEndpointTest, EndsAtOnce) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    // Its server looks every two seconds whether it is to end, and the host may be slow once.
    absl::Duration least = absl::InfiniteDuration();
    for (int i = 0; i < 5 && least > absl::Seconds(1); ++i) {
      auto endpoint = MetricsEndpoint::Listen(address, [](v1::Stats*) {});
      ASSERT_TRUE(endpoint.ok()) << endpoint.status();
      EXPECT_GT((*endpoint)->port(), 0);
      const absl::Time begin = absl::Now();
      endpoint->reset();
      least = std::min(least, absl::Now() - begin);
    }
    EXPECT_LT(least, absl::Seconds(1)) << address;
  }
}

TEST(MetricsEndpointTest, APortThatIsTakenIsUnavailable) {
  const auto read = [](v1::Stats*) {};
  const auto first = MetricsEndpoint::Listen("127.0.0.1:0", read);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = MetricsEndpoint::Listen(taken, read);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
}

}  // namespace monitoring_test
}  // namespace tensord::server
