// SPDX-License-Identifier: Apache-2.0
#include "server/ctl/view/quantile.h"

#include <cmath>
#include <limits>

#include "server/ctl/view/table.h"

namespace tensord::server {

double Quantile(const v1::Latency& latency, double q) {
  uint64_t all = 0, below = 0;
  for (const uint64_t count : latency.counts()) all += count;
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const double wanted = q * static_cast<double>(all);
  for (int i = 0; i < latency.bounds_seconds_size(); ++i) {
    below += latency.counts(i);
    if (static_cast<double>(below) >= wanted) return latency.bounds_seconds(i);
  }
  return std::numeric_limits<double>::infinity();
}

double Quantile(const v1::Stats& stats, std::string_view outcome, double q) {
  for (const v1::Latency& latency : stats.latencies()) {
    if (latency.outcome() == outcome) return Quantile(latency, q);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string HumanSeconds(double seconds) {
  if (std::isnan(seconds)) return "-";
  if (std::isinf(seconds)) return "long";
  return HumanNanoseconds(static_cast<uint64_t>(std::llround(seconds * 1e9)));
}

}  // namespace tensord::server
