// SPDX-License-Identifier: Apache-2.0
// What Prometheus calls each number of the statistics: one table, from which come the metrics,
// their document (docs/monitoring.md), and what counts as growth (growth.h).
#ifndef TENSORD_SERVER_MONITORING_METRIC_TABLE_H_
#define TENSORD_SERVER_MONITORING_METRIC_TABLE_H_

#include <vector>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

struct Metric {
  // Of Stats: a number, or a text of which it is shown whether there is one. Nanoseconds are shown
  // as seconds.
  const char* field;
  // As Prometheus' conventions want it: the unit behind, and "_total" where it only grows.
  const char* name;
  const char* label;  // "outcome=hit", in lines that share a name; or ""
  const char* help;   // in the first line of a name; or ""

  bool Grows() const;
  // In base units.
  double ValueOf(const v1::Stats& stats) const;
};

// Lines of one name stand together. The fields of Stats that are messages are not here:
// families.cc shows them.
const std::vector<Metric>& MetricTable();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_MONITORING_METRIC_TABLE_H_
