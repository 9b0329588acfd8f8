// SPDX-License-Identifier: Apache-2.0
#include "server/monitoring/families.h"

#include <absl/strings/str_split.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>
#include <utility>

#include "server/monitoring/metric_table.h"

namespace tensord::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

double Seconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

void AddValue(MetricFamily& family, Labels labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  if (family.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

// "outcome=hit"
Labels ReadLabel(const std::string& text) {
  if (text.empty()) return {};
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  return {{parts.first, parts.second}};
}

MetricFamily BuildInfo(const v1::Stats& stats) {
  MetricFamily family{"tensord_build_info", "1, with the daemon's version.", MetricType::Gauge, {}};
  AddValue(family, {{"version", stats.version()}}, 1);
  return family;
}

// A stage's time has that of its passes, so they are metrics of their own: a sum counts nothing
// twice.
std::pair<MetricFamily, MetricFamily> Stages(const v1::Stats& stats) {
  MetricFamily stages{
      "tensord_compile_stage_seconds_total", "Time of compiles by stage.", MetricType::Counter, {}};
  MetricFamily passes{"tensord_compile_pass_seconds_total",
                      "Part of a stage's time: one of its passes, or what workers did in it.",
                      MetricType::Counter,
                      {}};
  for (const v1::StageTime& time : stats.stages()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(time.stage(), absl::MaxSplits('/', 1));
    if (parts.second.empty()) {
      AddValue(stages, {{"stage", parts.first}}, Seconds(time.nanoseconds()));
    } else {
      AddValue(passes, {{"stage", parts.first}, {"pass", parts.second}},
               Seconds(time.nanoseconds()));
    }
  }
  return {std::move(stages), std::move(passes)};
}

MetricFamily Latencies(const v1::Stats& stats) {
  MetricFamily family{"tensord_request_duration_seconds",
                      "How long requests took, from when they were received.",
                      MetricType::Histogram,
                      {}};
  for (const v1::Latency& latency : stats.latencies()) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"outcome", latency.outcome()}};
    uint64_t count = 0;
    for (int i = 0; i < latency.counts_size(); ++i) {
      count += latency.counts(i);
      metric.histogram.bucket.push_back({count, i < latency.bounds_seconds_size()
                                                    ? latency.bounds_seconds(i)
                                                    : std::numeric_limits<double>::infinity()});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = Seconds(latency.nanoseconds());
  }
  return family;
}

// The reasons are texts of jobs: `tensorctl frames` has them.
MetricFamily Unrecorded(const v1::Stats& stats) {
  MetricFamily family{"tensord_captures_unrecorded_total",
                      "Captures that gave no frame; tensorctl frames says why.",
                      MetricType::Counter,
                      {}};
  uint64_t count = 0;
  for (const v1::UnrecordedFrame& unrecorded : stats.frames_unrecorded()) {
    count += unrecorded.count();
  }
  AddValue(family, {}, static_cast<double>(count));
  return family;
}

MetricFamily Misses(const v1::Stats& stats) {
  MetricFamily family{"tensord_program_misses_total",
                      "Compiles that were begun, by why the program was not stored; tensorctl "
                      "explain-miss has the nearest.",
                      MetricType::Counter,
                      {}};
  for (const v1::MissCount& miss : stats.misses()) {
    AddValue(family, {{"reason", miss.reason()}}, static_cast<double>(miss.count()));
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> ToFamilies(const v1::Stats& stats) {
  std::vector<MetricFamily> families = {BuildInfo(stats)};
  for (const MetricField& field : MetricTable()) {
    const v1::Metric& metric = *field.metric;
    if (metric.name() != families.back().name) {
      families.push_back({metric.name(),
                          metric.help(),
                          field.Grows() ? MetricType::Counter : MetricType::Gauge,
                          {}});
    }
    AddValue(families.back(), ReadLabel(metric.label()), field.ValueOf(stats));
  }
  families.push_back(Misses(stats));
  families.push_back(Latencies(stats));
  auto [stages, passes] = Stages(stats);
  families.push_back(std::move(stages));
  families.push_back(std::move(passes));
  families.push_back(Unrecorded(stats));
  return families;
}

std::string ToText(const std::vector<MetricFamily>& families) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace tensord::server
