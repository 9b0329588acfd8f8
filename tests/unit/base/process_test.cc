// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

namespace tensord {
namespace {

using ::testing::HasSubstr;

Command Shell(const std::string& script) {
  Command command;
  command.argv = {"/bin/sh", "-c", script};
  return command;
}

ProcessResult RunOk(const Command& command) {
  const absl::StatusOr<ProcessResult> result = RunProcess(command);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ProcessResult{-1, ""});
}

TEST(Process, CollectsBothOutputsAndTheExitCode) {
  const ProcessResult result = RunOk(Shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(Process, LongOutputIsComplete) {
  EXPECT_EQ(RunOk(Shell("head -c 1000000 /dev/zero")).output.size(), 1'000'000u);
}

TEST(Process, ASignalIsAnExitCodeOf128AndItsNumber) {
  EXPECT_EQ(RunOk(Shell("kill -TERM $$")).exit_code, 128 + SIGTERM);
}

TEST(Process, WhatIsNotThereIsNotFound) {
  Command command;
  command.argv = {"/nowhere/program"};
  const auto result = RunProcess(command);
  EXPECT_TRUE(absl::IsNotFound(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("/nowhere/program"));
  command.argv = {"/etc/passwd"};  // no program
  EXPECT_TRUE(absl::IsNotFound(RunProcess(command).status()));
}

TEST(Process, FoldersOfTheDeadGo) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::path(::testing::TempDir()) / absl::StrCat("dead-", getpid());
  const std::string mine = absl::StrCat("a-", getpid());
  const std::vector<std::string> stay = {mine, mine + "-x", "b-2147483600", "a-", "a-0", "a-z1"};
  for (const std::string& name : stay) fs::create_directories(parent / name);
  fs::create_directories(parent / "a-2147483600" / "inside");
  fs::create_directories(parent / "a-2147483600-x");
  RemoveFoldersOfTheDead(parent, "a-");
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(parent)) left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAreArray(stay));
  fs::remove_all(parent);
}

TEST(Process, AFolderThatIsNotThereIsNotFound) {
  Command command = Shell("true");
  command.folder = "/nowhere";
  EXPECT_TRUE(absl::IsNotFound(RunProcess(command).status()));
}

TEST(Process, RunsInItsFolderAndEnvironment) {
  setenv("TENSORD_TEST_INHERITED", "inherited", 1);
  Command command = Shell("pwd; echo $TENSORD_TEST_INHERITED,$GIVEN");
  command.folder = "/usr";
  EXPECT_EQ(RunOk(command).output, "/usr\ninherited,\n");
  command.environment = {"GIVEN=given"};
  EXPECT_EQ(RunOk(command).output, "/usr\n,given\n");
  unsetenv("TENSORD_TEST_INHERITED");
}

TEST(Process, ReadsNothingAndKeepsNoDescriptorOpen) {
  const int open_here = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  // The listing's own descriptor is the fourth.
  EXPECT_EQ(RunOk(Shell("cat; ls /proc/self/fd | wc -l")).output, "4\n");
  close(open_here);
}

TEST(Process, PassesDescriptorsWhoseNumbersCross) {
  int first[2], second[2];
  ASSERT_EQ(pipe2(first, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(second, O_CLOEXEC), 0);
  Command command = Shell("echo one >&$A; echo two >&$B");
  // Each gets a number that another has here.
  command.environment = {"A=" + std::to_string(second[1]), "B=" + std::to_string(first[1])};
  command.fds = {{first[1], second[1]}, {second[1], first[1]}};
  if (first[1] > 9 || second[1] > 9) GTEST_SKIP() << "a shell knows descriptors of one digit";
  const auto pid = Spawn(command);
  ASSERT_TRUE(pid.ok()) << pid.status();
  close(first[1]);
  close(second[1]);
  char text[8] = {};
  EXPECT_EQ(read(first[0], text, 4), 4);
  EXPECT_STREQ(text, "one\n");
  EXPECT_EQ(read(second[0], text, 4), 4);
  EXPECT_STREQ(text, "two\n");
  close(first[0]);
  close(second[0]);
  waitpid(*pid, nullptr, 0);
}

TEST(Process, LeadsAGroupOfItsOwnWhereAsked) {
  Command command = Shell("exec sleep 60");
  for (const bool own : {false, true}) {
    command.own_group = own;
    const auto pid = Spawn(command);
    ASSERT_TRUE(pid.ok()) << pid.status();
    EXPECT_EQ(getpgid(*pid), own ? *pid : getpgrp());
    kill(*pid, SIGKILL);
    waitpid(*pid, nullptr, 0);
  }
}

TEST(Process, HasDefaultSignalsWhateverTheParentIgnoresOrBlocks) {
  const auto before = signal(SIGUSR1, SIG_IGN);
  sigset_t blocked, old;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &old);
  EXPECT_EQ(RunOk(Shell("kill -USR1 $$; echo alive")).exit_code, 128 + SIGUSR1);
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, &old, &now);
  EXPECT_TRUE(sigismember(&now, SIGUSR1));
  EXPECT_FALSE(sigismember(&now, SIGUSR2)) << "the parent's mask has changed";
  signal(SIGUSR1, before);
}

TEST(Process, MemoryIsLimited) {
  Command command = Shell("ulimit -v; ulimit -c");
  EXPECT_EQ(RunOk(command).output, "unlimited\n0\n");
  command.memory_bytes = 1 << 30;
  EXPECT_EQ(RunOk(command).output, "1048576\n0\n");
}

TEST(Process, EndsWithTheThreadThatStartedIt) {
  Command command = Shell("exec sleep 60");
  command.death_signal = SIGTERM;
  absl::StatusOr<pid_t> pid = absl::UnknownError("");
  std::thread([&] { pid = Spawn(command); }).join();
  ASSERT_TRUE(pid.ok()) << pid.status();
  int status = 0;
  ASSERT_EQ(waitpid(*pid, &status, 0), *pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

}  // namespace
}  // namespace tensord
