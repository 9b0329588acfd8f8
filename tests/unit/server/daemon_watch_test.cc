// SPDX-License-Identifier: Apache-2.0
// Who watches the daemon: its statistics at an interval, and the compiles that are under way.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "server/daemon/daemon.h"
#include "tensord/v1/service.grpc.pb.h"
#include "tests/unit/server/daemon_testing.h"

namespace tensord::server {
namespace daemon_watch_test {

class DaemonWatchTest : public DaemonTest {};

TEST_F(DaemonWatchTest, StatisticsAreWatchedAtAnInterval) {
  const pid_t pid = Start({"--idle-exit", "2"});
  auto stub = Connect();
  grpc::ClientContext watching;
  v1::WatchStatsRequest request;
  request.set_interval_milliseconds(1);  // 100 is the least
  auto reader = stub->WatchStats(&watching, request);
  v1::StatsUpdate update;
  ASSERT_TRUE(reader->Read(&update));
  EXPECT_EQ(update.stats().pid(), static_cast<uint32_t>(pid));
  EXPECT_FALSE(update.has_growth());
  EXPECT_EQ(update.elapsed_nanoseconds(), 0u);

  v1::CompileReply reply;
  ASSERT_TRUE(Compile(*stub, Request({"a"}), &reply).ok());
  uint64_t requests = update.stats().requests(), compiled = 0, in_time = 0;
  while (compiled == 0 && reader->Read(&update)) {
    requests += update.growth().requests();
    compiled += update.growth().compiled();
    in_time += update.growth().latencies(1).nanoseconds();
    EXPECT_EQ(update.stats().requests(), requests);
    EXPECT_EQ(update.growth().workers(), 0u);
    EXPECT_GE(update.elapsed_nanoseconds(), 90'000'000u);
  }
  EXPECT_EQ(compiled, 1u);
  EXPECT_GT(in_time, 0u);

  // Whoever watches keeps no daemon: this one ends for want of calls.
  while (reader->Read(&update)) continue;
  EXPECT_EQ(Wait(pid), kExitOk);
}

TEST_F(DaemonWatchTest, CompilesUnderWayAreWatched) {
  const pid_t pid = Start();
  auto stub = Connect();
  v1::CompileRequest request = Request({"slow1", "slow2", "slow3"}, "slow");
  request.mutable_caller()->set_pid(77);
  request.set_label("forward");
  std::thread asks([&] {
    v1::CompileReply reply;
    EXPECT_TRUE(Compile(*stub, request, &reply).ok());
    EXPECT_EQ(reply.kernels_compiled(), 3u);
  });

  grpc::ClientContext watching;
  v1::WatchCompilesRequest watch;
  watch.set_interval_milliseconds(100);
  watch.mutable_caller()->set_pid(77);
  auto reader = stub->WatchCompiles(&watching, watch);
  std::vector<v1::CompileProgress> seen;
  for (v1::CompilesUpdate update; reader->Read(&update);) {
    if (update.compiles_size() == 0 && !seen.empty()) break;
    for (const v1::CompileProgress& progress : update.compiles()) seen.push_back(progress);
  }
  asks.join();
  watching.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);

  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].label(), "forward");
  EXPECT_EQ(seen[0].nodes(), 3u);
  EXPECT_EQ(seen[0].callers(0).pid(), 77u);
  uint32_t least = 3, most = 0;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (i > 0) {
      EXPECT_GE(seen[i].share(), seen[i - 1].share());
    }
    if (seen[i].kernels() != 3) continue;
    least = std::min(least, seen[i].kernels_ready());
    most = std::max(most, seen[i].kernels_ready());
  }
  EXPECT_LT(least, 3u);
  EXPECT_GE(most, 1u);

  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
}

TEST_F(DaemonWatchTest, WhoStopsToWatchIsForgotten) {
  const pid_t pid = Start();
  auto stub = Connect();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext watching;
    v1::WatchStatsRequest request;
    request.set_interval_milliseconds(100);
    auto reader = stub->WatchStats(&watching, request);
    v1::StatsUpdate update;
    for (int read = 0; read < i % 3; ++read) EXPECT_TRUE(reader->Read(&update));
    watching.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(GetStats(*stub).requests(), 0u);
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
}

}  // namespace daemon_watch_test
}  // namespace tensord::server
