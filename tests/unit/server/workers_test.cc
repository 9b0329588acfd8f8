// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/clock.h"
#include "server/pool/group_memory.h"
#include "server/pool/worker_pool.h"
#include "server/statistics/metrics.h"
#include "server/worker/framing.h"
#include "tests/unit/server/testing.h"

namespace tensord::server {
namespace workers_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::WorkerRequest Job(const std::string& order) {
  v1::WorkerRequest request;
  v1::Node* node = request.mutable_compile()->mutable_graph()->add_nodes();
  node->set_op("aten::add");
  node->set_name(order);
  return request;
}

// Waits up to two seconds.
bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 200; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return condition();
}

bool Exists(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return (file >> number >> name >> state) && state != "Z";
}

class WorkersTest : public ServerTest {
 protected:
  Metrics metrics_;
};

TEST_F(WorkersTest, StartsLateAndAnswers) {
  WorkerPool pool(Pool(), &metrics_);
  EXPECT_EQ(pool.Running(), 0);
  const auto reply = pool.Call(Job(""));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->compiled().units_size(), 1);
  EXPECT_EQ(pool.Running(), 1);
  // The same one again.
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(pool.Running(), 1);
  EXPECT_GT(metrics_.worker_cpu_nanoseconds, 0u);
}

TEST_F(WorkersTest, SaysHowManyUnitsAreDoneBeforeItAnswers) {
  WorkerPool pool(Pool(), &metrics_);
  v1::WorkerRequest request;
  for (const char* source : {"// a", "jit_fail", "// c"}) {
    request.mutable_jit()->add_units()->set_source(source);
  }
  // A daemon of before this existed hears nothing but the reply.
  EXPECT_EQ(pool.Call(request)->jitted().binaries_size(), 3);
  request.mutable_jit()->set_reports_units(true);
  std::vector<uint32_t> heard;
  absl::Duration budget = absl::Seconds(10);
  const auto reply =
      pool.Call(request, Cost::kCheap, budget, [&](uint32_t done) { heard.push_back(done); });
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->jitted().binaries_size(), 3);
  EXPECT_THAT(heard, ElementsAre(1, 2, 3));
}

TEST_F(WorkersTest, ErrorOfAJobIsItsStatus) {
  WorkerPool pool(Pool(), &metrics_);
  const auto reply = pool.Call(Job("invalid"));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("node 'invalid'"));
  EXPECT_EQ(metrics_.worker_restarts, 0u);
}

TEST_F(WorkersTest, CrashCostsOneJob) {
  WorkerPool pool(Pool(1), &metrics_);
  const auto reply = pool.Call(Job("crash"));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("Segmentation fault"));
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(metrics_.worker_restarts, 1u);
}

TEST_F(WorkersTest, LateWorkerIsEndedWithItsChildren) {
  PoolOptions options = Pool(1);
  options.job_limit = absl::Milliseconds(500);
  WorkerPool pool(options, &metrics_);
  const auto reply = pool.Call(Job("spawn"));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("500ms"));
  pid_t child = 0;
  std::ifstream(LogPath() + ".child") >> child;
  ASSERT_GT(child, 0);
  EXPECT_TRUE(Eventually([&] { return !Exists(child); }));
}

TEST_F(WorkersTest, MemoryIsLimited) {
  if (!kMemoryCanBeLimited) GTEST_SKIP() << "under a sanitizer";
  PoolOptions options = Pool(1);
  options.command.memory_bytes = 1ull << 30;
  WorkerPool pool(options, &metrics_);
  const auto reply = pool.Call(Job("hoard"));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("out of memory"));
  EXPECT_TRUE(IsOverBudget(reply.status()));
  // What it holds now it might hold for ever.
  EXPECT_EQ(metrics_.worker_restarts, 1u);
  EXPECT_EQ(pool.Running(), 0);
}

TEST_F(WorkersTest, MemoryIsThatOfAllBelowTheWorkerTogether) {
  if (!kMemoryCanBeLimited) GTEST_SKIP() << "under a sanitizer";
  PoolOptions options = Pool(1);
  options.command.memory_bytes = 512ull << 20;
  WorkerPool pool(options, &metrics_);
  const absl::Time start = absl::Now();
  const auto reply = pool.Call(Job("hoard_below"));
  EXPECT_LT(absl::Now() - start, options.job_limit);
  EXPECT_TRUE(IsOverBudget(reply.status())) << reply.status();
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("job_memory"));
  EXPECT_TRUE(pool.Call(Job("")).ok());
}

TEST_F(WorkersTest, AWorkerThatAJobLeftFatIsNotTheNextJobs) {
  if (!kMemoryCanBeLimited) GTEST_SKIP() << "under a sanitizer";
  PoolOptions options = Pool(1);
  options.command.memory_bytes = 1ull << 30;
  WorkerPool pool(options, &metrics_);
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(pool.Running(), 1);
  EXPECT_TRUE(pool.Call(Job("fat")).ok());
  EXPECT_EQ(pool.Running(), 0);
  EXPECT_EQ(metrics_.worker_restarts, 0u);  // it did nothing wrong
}

TEST_F(WorkersTest, AWorkerThatSomebodyKilledIsNotOverItsBudget) {
  WorkerPool pool(Pool(1), &metrics_);
  const auto reply = pool.Call(Job("killed"));
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("Killed"));
  EXPECT_FALSE(IsOverBudget(reply.status()));
  EXPECT_FALSE(IsCrash(reply.status()));
}

TEST(MemoryBelowTest, IsThatOfAProcessAndItsChildren) {
  constexpr uint64_t kMiB = 1 << 20;
  const uint64_t before = MemoryBelow(getpid());
  EXPECT_GT(before, 0u);
  std::string mine(64 * kMiB, 'x');
  EXPECT_GE(MemoryBelow(getpid()), before + 60 * kMiB);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    mine.assign(mine.size(), 'y');  // its own copy
    if (write(ready[1], "x", 1) != 1) _exit(1);
    sleep(600);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(MemoryBelow(getpid()), before + 120 * kMiB);
  EXPECT_GE(MemoryBelow(child), 60 * kMiB);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(MemoryBelow(child), 0u);  // there is none
  close(ready[0]);
  close(ready[1]);
}

TEST_F(WorkersTest, IdleWorkersAreEnded) {
  PoolOptions options = Pool();
  options.idle = absl::Milliseconds(100);
  WorkerPool pool(options, &metrics_);
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_TRUE(Eventually([&] { return pool.Running() == 0; }));
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(metrics_.worker_restarts, 0u);
}

TEST_F(WorkersTest, IdleWorkerThatDiedIsReplaced) {
  PoolOptions options = Pool(1);
  WorkerPool pool(options, &metrics_);
  EXPECT_TRUE(pool.Call(Job("")).ok());
  // Our only child is the worker.
  siginfo_t info{};
  const pid_t pid = [] {
    std::ifstream file("/proc/self/task/" + std::to_string(getpid()) + "/children");
    pid_t first = 0;
    file >> first;
    return first;
  }();
  if (pid == 0) {
    // The child belongs to the pool's own thread.
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      pid_t child = 0;
      std::ifstream(task.path() / "children") >> child;
      if (child > 0) kill(child, SIGKILL);
    }
  } else {
    kill(pid, SIGKILL);
  }
  waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(metrics_.worker_restarts, 1u);
}

TEST_F(WorkersTest, MissingWorkerSaysItsPath) {
  PoolOptions options = Pool();
  options.command.path = "/nonexistent/tensord-worker";
  WorkerPool pool(options, &metrics_);
  for (int i = 0; i < 3; ++i) {
    const auto reply = pool.Call(Job(""));
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(reply.status().message()),
                HasSubstr("/nonexistent/tensord-worker: No such file"));
  }
}

TEST_F(WorkersTest, ManyCallersShareFewWorkers) {
  WorkerPool pool(Pool(2), &metrics_);
  std::atomic<int> ok = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const auto reply = pool.Call(Job(t == 0 && i % 4 == 0 ? "crash" : ""));
        ok += reply.ok();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ok, 77);
  EXPECT_LE(pool.Running(), 2);
  EXPECT_EQ(metrics_.worker_restarts, 3u);
}

TEST_F(WorkersTest, OnePlaceIsKeptFromTheExpensive) {
  WorkerPool pool(Pool(2), &metrics_);
  EXPECT_EQ(pool.Free(Cost::kExpensive), 1);
  EXPECT_EQ(pool.Free(Cost::kCheap), 2);
  std::vector<std::thread> expensive;
  for (int i = 0; i < 2; ++i) {
    expensive.emplace_back([&] {
      absl::Duration budget = absl::Seconds(20);
      EXPECT_TRUE(absl::IsUnavailable(pool.Call(Job("hang"), Cost::kExpensive, budget).status()));
    });
  }
  EXPECT_TRUE(Eventually([&] { return Jobs("compile") == 1; }));
  EXPECT_EQ(pool.Free(Cost::kExpensive), 0);
  EXPECT_EQ(pool.Free(Cost::kCheap), 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.Call(Job("")).ok());
  EXPECT_EQ(Jobs("compile"), 4);  // the other expensive one still waits
  pool.Stop();
  for (std::thread& thread : expensive) thread.join();
}

TEST_F(WorkersTest, StopEndsWorkAtOnce) {
  WorkerPool pool(Pool(1), &metrics_);
  std::thread stopper([&] {
    Eventually([&] { return Jobs("compile") > 0; });
    pool.Stop();
  });
  EXPECT_EQ(pool.Call(Job("hang")).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pool.Call(Job("")).status().code(), absl::StatusCode::kUnavailable);
  stopper.join();
}

TEST(FramingTest, RefusesWhatIsNoMessage) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  v1::WorkerReply reply;
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      ReadFrame(sockets[0], &reply, SteadyNow() + absl::Milliseconds(20))));
  const char huge[] = {'\xff', '\xff', '\xff', '\xff'};
  ASSERT_EQ(write(sockets[1], huge, 4), 4);
  EXPECT_TRUE(absl::IsDataLoss(ReadFrame(sockets[0], &reply)));
  const char broken[] = {2, 0, 0, 0, '\xff', '\xff'};
  ASSERT_EQ(write(sockets[1], broken, 6), 6);
  EXPECT_TRUE(absl::IsDataLoss(ReadFrame(sockets[0], &reply)));
  close(sockets[1]);
  EXPECT_TRUE(absl::IsOutOfRange(ReadFrame(sockets[0], &reply)));
  close(sockets[0]);
}

}  // namespace workers_test
}  // namespace tensord::server
