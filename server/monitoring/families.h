// SPDX-License-Identifier: Apache-2.0
// The statistics as Prometheus has them.
#ifndef TENSORD_SERVER_MONITORING_FAMILIES_H_
#define TENSORD_SERVER_MONITORING_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

// Every number of the statistics, in base units. How many series there are is bounded, whatever
// jobs do: no label tells a program, a job or a host.
std::vector<prometheus::MetricFamily> ToFamilies(const v1::Stats& stats);

// As Prometheus reads it: its text format, version 0.0.4.
std::string ToText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_MONITORING_FAMILIES_H_
