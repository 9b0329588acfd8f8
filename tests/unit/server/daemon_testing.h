// SPDX-License-Identifier: Apache-2.0
// The daemon as a process with the fake worker, and a stub to call it by.
#ifndef TENSORD_TESTS_UNIT_SERVER_DAEMON_TESTING_H_
#define TENSORD_TESTS_UNIT_SERVER_DAEMON_TESTING_H_

#include <absl/time/clock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tensord/v1/service.grpc.pb.h"
#include "tests/unit/server/testing.h"

namespace tensord::server {

class DaemonTest : public ServerTest {
 protected:
  ~DaemonTest() override {
    for (const pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  std::string Socket() const { return folder_ + "/run/tensord.sock"; }

  pid_t Start(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {TENSORD_BINARY,   "--address", "unix:" + Socket(),
                                     "--worker",       FAKE_WORKER, "--log-file",
                                     folder_ + "/log", "--store",   folder_ + "/store"};
    args.insert(args.end(), more.begin(), more.end());
    if (!kMemoryCanBeLimited) args.insert(args.end(), {"--job-memory", "0"});
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      execv(argv[0], argv.data());
      _exit(127);
    }
    running_.push_back(pid);
    return pid;
  }

  int Wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    running_.erase(std::remove(running_.begin(), running_.end(), pid), running_.end());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  // A stub whose daemon answers.
  std::unique_ptr<v1::Compiler::Stub> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetInt("grpc.use_local_subchannel_pool", 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    for (int i = 0; i < 600; ++i) {
      auto stub = v1::Compiler::NewStub(grpc::CreateCustomChannel(
          "unix:" + Socket(), grpc::InsecureChannelCredentials(), arguments));
      grpc::ClientContext context;
      v1::Stats stats;
      if (stub->GetStats(&context, {}, &stats).ok()) return stub;
      absl::SleepFor(absl::Milliseconds(50));
    }
    ADD_FAILURE() << "the daemon does not answer";
    return nullptr;
  }

  std::string Log() {
    std::ifstream file(folder_ + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static grpc::Status Compile(v1::Compiler::Stub& stub, const v1::CompileRequest& request,
                              v1::CompileReply* reply) {
    grpc::ClientContext context;
    reply->Clear();
    return stub.Compile(&context, request, reply);
  }

  static grpc::Status CompileLarge(v1::Compiler::Stub& stub, const v1::CompileRequest& request,
                                   v1::CompileReply* reply) {
    grpc::ClientContext context;
    context.AddMetadata("tensord-request-bytes", std::to_string(request.ByteSizeLong()));
    return stub.CompileLarge(&context, request, reply);
  }

  static v1::Stats GetStats(v1::Compiler::Stub& stub) {
    grpc::ClientContext context;
    v1::Stats stats;
    EXPECT_TRUE(stub.GetStats(&context, {}, &stats).ok());
    return stats;
  }

  std::vector<pid_t> running_;
};

}  // namespace tensord::server

#endif  // TENSORD_TESTS_UNIT_SERVER_DAEMON_TESTING_H_
