// SPDX-License-Identifier: Apache-2.0
#include "server/compile/compile_board.h"

#include <gtest/gtest.h>

#include <string>

namespace tensord::server {
namespace compile_board_test {

v1::Caller Process(uint32_t pid, const std::string& host = "here") {
  v1::Caller caller;
  caller.set_pid(pid);
  caller.set_host(host);
  return caller;
}

v1::WatchCompilesRequest Of(const v1::Caller& caller) {
  v1::WatchCompilesRequest request;
  *request.mutable_caller() = caller;
  return request;
}

TEST(CompileBoardTest, AProgramIsListedWhileSomebodyWaits) {
  CompileBoard board;
  const absl::Time start = absl::FromUnixSeconds(1000);
  board.Join("key", 1, Process(7), "forward", 5, start);
  board.Join("key", 2, Process(8), "backward", 6, start + absl::Seconds(2));
  v1::CompilesUpdate update = board.Read({}, start + absl::Seconds(3));
  ASSERT_EQ(update.compiles_size(), 1);
  EXPECT_EQ(update.compiles(0).program_key(), "key");
  EXPECT_EQ(update.compiles(0).label(), "forward");  // of the first
  EXPECT_EQ(update.compiles(0).nodes(), 5u);
  EXPECT_EQ(update.compiles(0).stage(), v1::CompileProgress::WAITING);
  EXPECT_EQ(update.compiles(0).elapsed_nanoseconds(), 3'000'000'000u);
  EXPECT_EQ(update.compiles(0).callers_size(), 2);
  board.Leave("key", 1);
  EXPECT_EQ(board.Read({}).compiles(0).callers(0).pid(), 8u);
  board.Leave("key", 2);
  board.Leave("key", 2);
  EXPECT_EQ(board.Read({}).compiles_size(), 0);
}

TEST(CompileBoardTest, AWatcherSeesWhatItsProcessWaitsFor) {
  CompileBoard board;
  const absl::Time start = absl::FromUnixSeconds(1000);
  board.Join("later", 1, Process(7), "", 1, start + absl::Seconds(1));
  board.Join("sooner", 2, Process(7), "", 1, start);
  board.Join("other", 3, Process(7, "there"), "", 1, start);
  const v1::CompilesUpdate update = board.Read(Of(Process(7)), start + absl::Seconds(2));
  ASSERT_EQ(update.compiles_size(), 2);
  EXPECT_EQ(update.compiles(0).program_key(), "sooner");
  EXPECT_EQ(update.compiles(1).program_key(), "later");
  EXPECT_EQ(board.Read(Of(Process(9))).compiles_size(), 0);
}

TEST(CompileBoardTest, TheShareGrowsWithStagesAndKernels) {
  CompileBoard board;
  board.SetStage("key", v1::CompileProgress::COMPILING);  // nobody waits: dropped
  board.SetKernels("key", 1, 2);
  EXPECT_EQ(board.Read({}).compiles_size(), 0);
  board.Join("key", 1, Process(7), "", 1);
  const auto share = [&] { return board.Read({}).compiles(0).share(); };
  double last = share();
  EXPECT_EQ(last, 0);
  const auto grows = [&] {
    const double before = last;
    last = share();
    return last > before && last < 1;
  };
  board.SetStage("key", v1::CompileProgress::COMPILING);
  EXPECT_TRUE(grows());
  for (uint32_t ready = 0; ready <= 4; ++ready) {
    board.SetKernels("key", ready, 4);
    EXPECT_TRUE(grows());
    EXPECT_EQ(board.Read({}).compiles(0).kernels_ready(), ready);
  }
  board.SetStage("key", v1::CompileProgress::PUBLISHING);
  EXPECT_GE(share(), last);
  EXPECT_LT(share(), 1);
  EXPECT_EQ(board.Read({}).compiles(0).kernels(), 4u);
  board.SetStage("key", v1::CompileProgress::COMPILING);  // once more, by library calls
  EXPECT_EQ(board.Read({}).compiles(0).kernels(), 0u);
}

TEST(CompileBoardTest, WhatNeedsNoKernelsIsNotDividedByNone) {
  CompileBoard board;
  board.Join("key", 1, Process(7), "", 1);
  board.SetKernels("key", 5, 0);
  EXPECT_EQ(board.Read({}).compiles(0).kernels_ready(), 0u);
  EXPECT_LT(board.Read({}).compiles(0).share(), 1);
}

TEST(CompileBoardTest, ManyWhoWaitAreNamedInPart) {
  CompileBoard board;
  for (uint32_t i = 0; i < 100; ++i) board.Join("key", i, Process(i), "", 1);
  EXPECT_EQ(board.Read({}).compiles(0).callers_size(), 16);
  EXPECT_EQ(board.Read(Of(Process(99))).compiles_size(), 1);
}

// A board on which processes 1, 2, ... wait for the programs "1", "2", ...
class SilenceTest : public ::testing::Test {
 protected:
  static constexpr int kPrograms = 3;
  SilenceTest() {
    for (uint32_t i = 1; i <= kPrograms; ++i) {
      board_.Join(std::to_string(i), i, Process(i), "", 1, start_);
    }
  }
  // Seconds that nothing has moved for a process, so long after the start.
  double SilentFor(uint32_t pid, int seconds) {
    const auto update = board_.Read(Of(Process(pid)), start_ + absl::Seconds(seconds));
    return static_cast<double>(update.silent_nanoseconds()) / 1e9;
  }
  void Compiles(const std::string& key) { board_.SetStage(key, v1::CompileProgress::COMPILING); }
  OwnSteps::Step Step(const std::string& key, int usual_seconds = 10) {
    return board_.steps().Begin(key, absl::Seconds(usual_seconds), start_);
  }

  const absl::Time start_ = absl::FromUnixSeconds(1000);
  CompileBoard board_;
};

TEST_F(SilenceTest, AWorkerMayTakeItsTimeAndSoMayTheQueueBehindIt) {
  Compiles("1");
  board_.SetKernels("2", 1, 5);
  for (uint32_t pid = 1; pid <= kPrograms; ++pid) EXPECT_EQ(SilentFor(pid, 200), 0);
  EXPECT_EQ(SilentFor(99, 200), 0);  // waits for nothing
}

TEST_F(SilenceTest, AStepOfTheDaemonsOwnIsSilentBeyondWhatItUsuallyTakes) {
  Compiles("1");
  Compiles("2");
  {
    const auto step = Step("1");
    EXPECT_EQ(SilentFor(1, 9), 0);
    EXPECT_EQ(SilentFor(1, 13), 3);
    const auto another = board_.steps().Begin("1", absl::Seconds(10), start_ + absl::Seconds(8));
    EXPECT_EQ(SilentFor(1, 13), 3);  // the longest counts
    EXPECT_EQ(SilentFor(2, 13), 0);  // of another program
  }
  EXPECT_EQ(SilentFor(1, 13), 0);
}

TEST_F(SilenceTest, TheQueueIsAsSilentAsAllThatAreUp) {
  Compiles("1");
  Compiles("2");
  const auto first = Step("1");
  EXPECT_EQ(SilentFor(3, 30), 0);  // the other moves
  const auto second = Step("2", 5);
  EXPECT_EQ(SilentFor(3, 30), 20);
  EXPECT_EQ(board_.Read({}, start_ + absl::Seconds(30)).silent_nanoseconds(), 25'000'000'000u);
}

TEST_F(SilenceTest, WhoWaitsForOthersKernelsIsAsInTheQueue) {
  for (const char* key : {"1", "2", "3"}) Compiles(key);
  const auto waits = board_.steps().Wait("1");
  EXPECT_EQ(SilentFor(1, 30), 0);
  const auto second = Step("2");
  EXPECT_EQ(SilentFor(1, 30), 0);
  const auto third = Step("3");
  EXPECT_EQ(SilentFor(1, 30), 20);
}

TEST_F(SilenceTest, WhoIsLateBehindOthersThatEndIsNotSilentYet) {
  const absl::Time now = SteadyNow();
  const auto look_up = board_.steps().Begin("1", absl::ZeroDuration(), now - absl::Seconds(5));
  EXPECT_GE(board_.steps().Of("1", now).overdue, absl::Seconds(5));
  { const auto another = board_.steps().Begin("2", absl::ZeroDuration(), now); }
  EXPECT_LE(board_.steps().Of("1", now).overdue, absl::ZeroDuration());
  EXPECT_GE(board_.steps().Of("1", now + absl::Seconds(20)).overdue, absl::Seconds(25));
}

TEST_F(SilenceTest, ALookUpIsItsProcesss) {
  const auto look_up = Step(ProcessOf(Process(7)), 0);
  EXPECT_EQ(SilentFor(7, 3), 3);
  EXPECT_EQ(SilentFor(1, 3), 0);
  const auto there = board_.Read(Of(Process(7, "there")), start_ + absl::Seconds(3));
  EXPECT_EQ(there.silent_nanoseconds(), 0u);
}

}  // namespace compile_board_test
}  // namespace tensord::server
