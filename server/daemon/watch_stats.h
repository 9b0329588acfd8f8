// SPDX-License-Identifier: Apache-2.0
// WatchStats: the statistics again and again.
#ifndef TENSORD_SERVER_DAEMON_WATCH_STATS_H_
#define TENSORD_SERVER_DAEMON_WATCH_STATS_H_

#include <absl/time/time.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "tensord/v1/service.pb.h"

namespace tensord::server {

// A call that sends what `read` says every `interval` until its client leaves. gRPC deletes it.
grpc::ServerWriteReactor<v1::StatsUpdate>* NewStatsWatch(absl::Duration interval,
                                                         std::function<void(v1::Stats*)> read);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_WATCH_STATS_H_
