// SPDX-License-Identifier: Apache-2.0
// The daemon's statistics, as the RPCs, Prometheus and the page have them.
#ifndef TENSORD_SERVER_DAEMON_FILL_STATS_H_
#define TENSORD_SERVER_DAEMON_FILL_STATS_H_

#include "server/compile/compile_service.h"
#include "server/frames/frame_service.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {

inline void FillStats(CompileService& service, FrameService& frames, v1::Stats* stats) {
  service.FillStats(stats);
  frames.FillStats(stats);
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_FILL_STATS_H_
