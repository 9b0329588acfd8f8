// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/growth.h"

#include <algorithm>
#include <map>
#include <string>

#include "server/monitoring/metric_table.h"

namespace tensord::server {
namespace {

// A counter may be read a moment before another is written.
uint64_t Less(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

void GrowNumbers(const v1::Stats& now, const v1::Stats& before, v1::Stats* growth) {
  const google::protobuf::Reflection& reflection = *v1::Stats::GetReflection();
  for (const MetricField& metric : MetricTable()) {
    if (!metric.Grows()) continue;
    reflection.SetUInt64(
        growth, metric.field,
        Less(reflection.GetUInt64(now, metric.field), reflection.GetUInt64(before, metric.field)));
  }
}

void GrowStages(const v1::Stats& now, const v1::Stats& before, v1::Stats* growth) {
  std::map<std::string, uint64_t> had;
  for (const v1::StageTime& stage : before.stages()) had[stage.stage()] = stage.nanoseconds();
  for (const v1::StageTime& stage : now.stages()) {
    const uint64_t grown = Less(stage.nanoseconds(), had[stage.stage()]);
    if (grown == 0) continue;
    v1::StageTime* added = growth->add_stages();
    added->set_stage(stage.stage());
    added->set_nanoseconds(grown);
  }
}

// Counts by reason.
template <class List>
void GrowReasons(const List& now, const List& before, List* growth) {
  std::map<std::string, uint64_t> had;
  for (const auto& one : before) had[one.reason()] = one.count();
  for (const auto& one : now) {
    const uint64_t grown = Less(one.count(), had[one.reason()]);
    if (grown == 0) continue;
    auto* added = growth->Add();
    added->set_reason(one.reason());
    added->set_count(grown);
  }
}

// One daemon lists the same outcomes and bounds each time.
void GrowLatencies(const v1::Stats& now, const v1::Stats& before, v1::Stats* growth) {
  *growth->mutable_latencies() = now.latencies();
  for (int i = 0; i < std::min(now.latencies_size(), before.latencies_size()); ++i) {
    v1::Latency& grown = *growth->mutable_latencies(i);
    const v1::Latency& had = before.latencies(i);
    for (int bucket = 0; bucket < std::min(grown.counts_size(), had.counts_size()); ++bucket) {
      grown.set_counts(bucket, Less(grown.counts(bucket), had.counts(bucket)));
    }
    grown.set_nanoseconds(Less(grown.nanoseconds(), had.nanoseconds()));
  }
}

}  // namespace

v1::Stats Growth(const v1::Stats& now, const v1::Stats& before) {
  v1::Stats growth;
  GrowNumbers(now, before, &growth);
  GrowStages(now, before, &growth);
  GrowReasons(now.frames_unrecorded(), before.frames_unrecorded(),
              growth.mutable_frames_unrecorded());
  GrowReasons(now.misses(), before.misses(), growth.mutable_misses());
  GrowLatencies(now, before, &growth);
  return growth;
}

}  // namespace tensord::server
