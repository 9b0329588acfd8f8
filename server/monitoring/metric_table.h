// SPDX-License-Identifier: Apache-2.0
// What Prometheus calls each number of the statistics, as stats.proto says it: from here come the
// metrics, their document (docs/monitoring.md), and what counts as growth (growth.h).
#ifndef TENSORD_SERVER_MONITORING_METRIC_TABLE_H_
#define TENSORD_SERVER_MONITORING_METRIC_TABLE_H_

#include <vector>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

struct MetricField {
  const google::protobuf::FieldDescriptor* field;  // of Stats
  const v1::Metric* metric;                        // its option

  bool Grows() const;
  // In base units.
  double ValueOf(const v1::Stats& stats) const;
};

// In the order of stats.proto. The fields of Stats that are messages are not here: families.cc
// shows them.
const std::vector<MetricField>& MetricTable();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_MONITORING_METRIC_TABLE_H_
