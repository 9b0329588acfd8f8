// SPDX-License-Identifier: Apache-2.0
// The daemon's statistics, as the RPCs, Prometheus and the page have them.
#ifndef TENSORD_SERVER_DAEMON_FILL_STATS_H_
#define TENSORD_SERVER_DAEMON_FILL_STATS_H_

#include <string>

#include "server/compile/compile_service.h"
#include "server/frames/frame_service.h"

namespace tensord::v1 {
class Stats;
}

namespace tensord::server {

void FillStats(CompileService& service, FrameService& frames, v1::Stats* stats);

// What Prometheus would find of a daemon that has done nothing.
std::string MetricsOfNewDaemon();

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_FILL_STATS_H_
