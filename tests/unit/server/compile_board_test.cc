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

}  // namespace compile_board_test
}  // namespace tensord::server
