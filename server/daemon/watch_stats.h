// SPDX-License-Identifier: Apache-2.0
// WatchStats: the statistics again and again, without a thread that waits.
#ifndef TENSORD_SERVER_DAEMON_WATCH_STATS_H_
#define TENSORD_SERVER_DAEMON_WATCH_STATS_H_

#include <absl/time/time.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "tensord/v1/service.pb.h"

namespace tensord::server {

// As WatchStatsRequest says, within its limits.
absl::Duration WatchInterval(const v1::WatchStatsRequest& request);

// A call that sends what `read` says every `interval` until its client leaves. gRPC deletes it.
grpc::ServerWriteReactor<v1::StatsUpdate>* NewWatch(absl::Duration interval,
                                                    std::function<void(v1::Stats*)> read);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_DAEMON_WATCH_STATS_H_
