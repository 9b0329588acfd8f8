// SPDX-License-Identifier: Apache-2.0
// What counts by buckets say of how long things took.
#ifndef TENSORD_SERVER_CTL_VIEW_QUANTILE_H_
#define TENSORD_SERVER_CTL_VIEW_QUANTILE_H_

#include <string>
#include <string_view>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

// Below how many seconds the share `q` of what was counted stayed: the upper bound of its bucket.
// Infinity: beyond the last bound. Not a number: nothing was counted.
double Quantile(const v1::Latency& latency, double q);
// The same of requests of that outcome.
double Quantile(const v1::Stats& stats, std::string_view outcome, double q);

// "2.5 ms"; "long" of infinity, "-" of what is no number.
std::string HumanSeconds(double seconds);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_CTL_VIEW_QUANTILE_H_
