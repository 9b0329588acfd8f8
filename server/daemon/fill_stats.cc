// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/fill_stats.h"

#include "server/monitoring/families.h"
#include "server/statistics/metrics.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {

void FillStats(CompileService& service, FrameService& frames, v1::Stats* stats) {
  service.FillStats(stats);
  frames.FillStats(stats);
}

std::string MetricsOfNewDaemon() {
  v1::Stats stats;
  Metrics().Fill(&stats);
  return ToText(ToFamilies(stats));
}

}  // namespace tensord::server
