// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/watch_stats.h"

#include <algorithm>
#include <utility>

#include "server/daemon/watch.h"
#include "server/monitoring/growth.h"

namespace tensord::server {

grpc::ServerWriteReactor<v1::StatsUpdate>* NewStatsWatch(absl::Duration interval,
                                                         std::function<void(v1::Stats*)> read) {
  return new Watch<v1::StatsUpdate>(
      interval, [read = std::move(read)](v1::StatsUpdate* update, absl::Duration since) {
        v1::Stats stats;
        read(&stats);
        if (update->has_stats()) {
          *update->mutable_growth() = Growth(stats, update->stats());
          update->set_elapsed_nanoseconds(
              static_cast<uint64_t>(std::max<int64_t>(1, absl::ToInt64Nanoseconds(since))));
        }
        *update->mutable_stats() = std::move(stats);
      });
}

}  // namespace tensord::server
