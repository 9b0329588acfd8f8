// SPDX-License-Identifier: Apache-2.0
#include "server/statistics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace metrics_test {

TEST(LatencyTest, ABoundIsOfTheBucketBelowIt) {
  Latency latency;
  latency.Add(0);
  latency.Add(50'000);  // the first bound
  latency.Add(50'001);
  latency.Add(300'000'000'000);  // the last
  latency.Add(301'000'000'000);
  v1::Latency filled;
  latency.Fill(&filled);
  ASSERT_EQ(filled.counts_size(), filled.bounds_seconds_size() + 1);
  const int last = filled.bounds_seconds_size() - 1;
  EXPECT_EQ(filled.counts(0), 2u);
  EXPECT_EQ(filled.counts(1), 1u);
  EXPECT_EQ(filled.counts(last), 1u);
  EXPECT_EQ(filled.counts(last + 1), 1u);
  EXPECT_EQ(filled.nanoseconds(), 601'000'100'001u);
  EXPECT_TRUE(std::is_sorted(filled.bounds_seconds().begin(), filled.bounds_seconds().end()));
}

TEST(MetricsTest, AWorkerCannotNameStagesWithoutEnd) {
  Metrics metrics;
  v1::Stats stats;
  for (int i = 0; i < 1000; ++i) {
    google::protobuf::RepeatedPtrField<v1::StageTime> stages;
    stages.Add()->set_stage("stage " + std::to_string(i));
    stages[0].set_nanoseconds(1);
    metrics.AddStages(stages);
  }
  metrics.Fill(&stats);
  EXPECT_EQ(stats.stages_size(), 257);
  uint64_t sum = 0;
  for (const v1::StageTime& stage : stats.stages()) sum += stage.nanoseconds();
  EXPECT_EQ(sum, 1000u);
}

}  // namespace metrics_test
}  // namespace tensord::server
