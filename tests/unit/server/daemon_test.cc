// SPDX-License-Identifier: Apache-2.0
// The daemon as a process: sockets, locks, signals, limits. The worker is the fake one.
#include "server/daemon/daemon.h"

#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "base/version.h"
#include "tensord/v1/service.grpc.pb.h"
#include "tests/unit/server/daemon_testing.h"

namespace tensord::server {
namespace daemon_test {

using ::testing::HasSubstr;

// For ever, to a test: much else may run on the host.
constexpr absl::Duration kLong = absl::Seconds(30);

TEST_F(DaemonTest, ServesOverAClosedSocketAndStops) {
  const pid_t pid = Start();
  auto stub = Connect();
  struct stat info {};
  ASSERT_EQ(stat(Socket().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
  ASSERT_EQ(stat((folder_ + "/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);

  v1::CompileReply reply;
  const grpc::Status status = Compile(*stub, Request({"a"}), &reply);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.outcome(), v1::CompileReply::COMPILED);

  v1::GetBlobRequest blob;
  blob.set_sha256(reply.artifact().modules(0).sha256());
  grpc::ClientContext context;
  auto reader = stub->GetBlob(&context, blob);
  std::string data;
  for (v1::BlobPiece piece; reader->Read(&piece);) data += piece.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(Sha256(data), blob.sha256());

  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
  EXPECT_FALSE(std::filesystem::exists(Socket()));
}

TEST_F(DaemonTest, APortForMetricsThatIsTakenIsAnErrorInTheLog) {
  const pid_t first = Start({"--metrics-address", "127.0.0.1:0"});
  Connect();
  const std::string log = Log();
  const size_t at = log.find("event=metrics ");
  ASSERT_NE(at, std::string::npos) << log;
  const std::string port = std::to_string(std::stoi(log.substr(log.find("port=", at) + 5)));
  folder_ += "/2";
  std::filesystem::create_directories(folder_);
  Start({"--metrics-address", port});
  Connect();
  EXPECT_THAT(Log(), HasSubstr("level=error event=metrics_failed"));
  EXPECT_THAT(Log(), HasSubstr("127.0.0.1:" + port));
  folder_.resize(folder_.size() - 2);

  kill(first, SIGTERM);
  EXPECT_EQ(Wait(first), kExitOk);
}

TEST_F(DaemonTest, SecondOneOnASocketSaysSo) {
  Start();
  Connect();
  EXPECT_EQ(Wait(Start()), kExitAlreadyRunning);
  EXPECT_THAT(Log(), HasSubstr("event=already_running"));
  Connect();
}

TEST_F(DaemonTest, StaleSocketIsReplaced) {
  const pid_t pid = Start();
  Connect();
  kill(pid, SIGKILL);
  Wait(pid);
  EXPECT_TRUE(std::filesystem::exists(Socket()));
  Start();
  EXPECT_NE(Connect(), nullptr);
}

// gRPC's own listener ends for good then.
TEST_F(DaemonTest, ListensOnAfterItHadNoDescriptorLeft) {
  // Which UBSan needs to look at memory, or else it ends the daemon.
  if (!kMemoryCanBeLimited) GTEST_SKIP() << "under a sanitizer";
  const pid_t pid = Start();
  ASSERT_NE(Connect(), nullptr);
  const rlimit few{64, 64};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &few, nullptr), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Socket().copy(address.sun_path, sizeof address.sun_path - 1);
  std::vector<int> connections;
  for (int i = 0; i < 100; ++i) {
    connections.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(connections[i], reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  absl::SleepFor(absl::Milliseconds(300));
  for (const int connection : connections) close(connection);
  EXPECT_NE(Connect(), nullptr);
}

TEST_F(DaemonTest, EndsWhenIdle) {
  const auto start = absl::Now();
  EXPECT_EQ(Wait(Start({"--idle-exit", "1"})), kExitOk);
  EXPECT_GE(absl::Now() - start, absl::Seconds(1));
  EXPECT_LT(absl::Now() - start, kLong);
  EXPECT_THAT(Log(), HasSubstr("why=\"idle\""));
}

TEST_F(DaemonTest, IsNotIdleWhileSomebodyWaitsForFrames) {
  Start({"--idle-exit", "4"});
  auto stub = Connect();
  v1::FindFramesRequest request;
  request.mutable_environment()->set_format(kFrameFormat);
  request.mutable_environment()->set_python("3.11.2");
  request.mutable_environment()->set_torch("2.13.0");
  request.mutable_environment()->set_options(Sha256("options"));
  request.set_code(Sha256("code"));
  request.set_captures(true);
  request.set_wait_milliseconds(6000);
  const auto find = [&] {
    v1::FindFramesReply reply;
    grpc::ClientContext context;
    const grpc::Status status = stub->FindFrames(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.capture();
  };
  EXPECT_NE(find(), 0u);
  EXPECT_EQ(find(), 0u);  // waits
}

TEST_F(DaemonTest, FinishesWhatIsInFlight) {
  const pid_t pid = Start();
  auto stub = Connect();
  v1::CompileReply reply;
  grpc::Status status;
  std::thread caller([&] { status = Compile(*stub, Request({"a"}, "slow"), &reply); });
  while (Jobs("compile") == 0) absl::SleepFor(absl::Milliseconds(5));
  kill(pid, SIGTERM);
  caller.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Wait(pid), kExitOk);
}

TEST_F(DaemonTest, DoesNotWaitForEverWhenStopping) {
  const pid_t pid = Start({"--stop-seconds", "1"});
  auto stub = Connect();
  v1::CompileReply reply;
  grpc::Status status;
  std::thread caller([&] { status = Compile(*stub, Request({"a"}, "hang"), &reply); });
  while (Jobs("compile") == 0) absl::SleepFor(absl::Milliseconds(5));
  const auto start = absl::Now();
  kill(pid, SIGTERM);
  caller.join();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(Wait(pid), kExitOk);
  EXPECT_LT(absl::Now() - start, kLong);
}

TEST_F(DaemonTest, WorkersDieWithAKilledDaemon) {
  const pid_t pid = Start();
  auto stub = Connect();
  std::thread caller([&] {
    v1::CompileReply reply;
    EXPECT_FALSE(Compile(*stub, Request({"a"}, "spawn"), &reply).ok());
  });
  pid_t child = 0;
  while (child == 0) {
    std::ifstream(LogPath() + ".child") >> child;
    absl::SleepFor(absl::Milliseconds(5));
  }
  kill(pid, SIGKILL);
  Wait(pid);
  caller.join();
  bool gone = false;
  for (const absl::Time end = absl::Now() + kLong; !gone && absl::Now() < end;) {
    std::ifstream file("/proc/" + std::to_string(child) + "/stat");
    std::string number, name, state;
    gone = !(file >> number >> name >> state) || state == "Z";
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(gone);
}

TEST_F(DaemonTest, UnusableStoreFallsBackToAPrivateOne) {
  std::ofstream(folder_ + "/file") << "x";
  const pid_t pid = Start({"--store", folder_ + "/file/store"});
  auto stub = Connect();
  v1::CompileReply reply;
  EXPECT_TRUE(Compile(*stub, Request({"a"}), &reply).ok());
  const v1::Stats stats = GetStats(*stub);
  EXPECT_THAT(stats.store(), HasSubstr(folder_ + "/run/private-store-"));
  EXPECT_THAT(stats.store_problem(), HasSubstr(folder_ + "/file"));
  EXPECT_THAT(Log(), HasSubstr("event=store_fallback"));
  kill(pid, SIGTERM);
  EXPECT_EQ(Wait(pid), kExitOk);
  EXPECT_FALSE(std::filesystem::exists(stats.store()));
}

TEST_F(DaemonTest, UsageErrorsHaveTheirOwnCode) {
  EXPECT_EQ(Wait(Start({"--workers", "many"})), kExitUsage);
  EXPECT_EQ(Wait(Start({"--no-such-flag"})), kExitUsage);
}

TEST_F(DaemonTest, LargeRequestGetsAFriendlyAnswer) {
  Start();
  auto stub = Connect();
  v1::CompileRequest request = Request({"a"});
  v1::Constant* constant = request.mutable_graph()->add_constants();
  constant->set_name("weights");
  constant->set_data(std::string(32 << 20, 'x'));
  v1::CompileReply reply;
  const grpc::Status status = Compile(*stub, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("'weights'"));
}

// Those that wait for the worker and those that are being received, whose bytes are counted twice.
TEST_F(DaemonTest, LargeRequestsAreReceivedWhenThereIsRoom) {
  constexpr uint64_t kLimit = 16 << 20;
  Start({"--workers", "1", "--request-memory", "16MB"});
  auto stub = Connect();
  std::vector<std::thread> callers;
  std::atomic<int> left = 8;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, i] {
      v1::CompileRequest request = Request({"op " + std::to_string(i)}, "slow");
      request.mutable_graph()->mutable_nodes(0)->set_source(std::string(5 << 20, 'x'));
      v1::CompileReply reply;
      const grpc::Status status = CompileLarge(*stub, request, &reply);
      EXPECT_TRUE(status.ok()) << status.error_message();
      --left;
    });
  }
  uint64_t most = 0;
  while (left > 0) {
    most = std::max(most, GetStats(*stub).request_bytes());
    v1::CompileReply reply;
    const absl::Time start = absl::Now();
    EXPECT_TRUE(Compile(*stub, Request({}), &reply).ok());  // what is small passes
    EXPECT_LT(absl::Now() - start, kMemoryCanBeLimited ? absl::Seconds(2) : kLong);
    absl::SleepFor(absl::Milliseconds(5));
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(most, kLimit / 2);
  EXPECT_LE(most, kLimit + 4096);
  EXPECT_EQ(GetStats(*stub).request_bytes(), 0u);
}

TEST_F(DaemonTest, IsSmallAndQuickWhenWarm) {
  Start();
  auto stub = Connect();
  v1::CompileReply reply;
  ASSERT_TRUE(Compile(*stub, Request({"a", "b", "c"}), &reply).ok());
  std::vector<double> micros;
  for (int i = 0; i < 500; ++i) {
    const auto start = absl::Now();
    ASSERT_TRUE(Compile(*stub, Request({"a", "b", "c"}), &reply).ok());
    micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  ASSERT_EQ(reply.outcome(), v1::CompileReply::HIT);
  std::sort(micros.begin(), micros.end());
  const v1::Stats stats = GetStats(*stub);
  std::printf("look-up median %.0f us, p99 %.0f us; in the daemon %.0f us; resident %.1f MiB\n",
              micros[250], micros[495], stats.lookup_nanoseconds() / 1e3 / stats.hits(),
              stats.resident_bytes() / 1048576.0);
#ifndef __SANITIZE_ADDRESS__  // which takes twice the memory, and time
  EXPECT_LT(micros[250], 1000);
  EXPECT_LT(stats.resident_bytes(), 60u << 20);
#endif
}

}  // namespace daemon_test
}  // namespace tensord::server
