// SPDX-License-Identifier: Apache-2.0
// What the statistics have grown by between two looks at them.
#ifndef TENSORD_SERVER_MONITORING_GROWTH_H_
#define TENSORD_SERVER_MONITORING_GROWTH_H_

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

// Of what only grows (metric_table.h, and times, latencies and reasons), `now` less `before`, which
// are of one daemon; all else is left out, as are stages and reasons that did not grow.
v1::Stats Growth(const v1::Stats& now, const v1::Stats& before);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_MONITORING_GROWTH_H_
