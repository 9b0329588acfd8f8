// SPDX-License-Identifier: Apache-2.0
// A worker without a compiler: speaks the worker's protocol and does as the first node's name says.
//
//   "crash"         dies of SIGSEGV              "hang"          never answers
//   "invalid"       InvalidArgument              "slow"          compiles in 300 ms
//   "killed"        dies of SIGKILL
//   "hoard"         allocates without end        "jit_fail"      its first unit does not compile
//   "hoard_below"   has eight children, each of 128 MiB          "fat"    keeps 600 MiB afterwards
//   "fails*"        does not compile, unless it is to be a library call: any node, not only the
//   first "spawn"         leaves a child that sleeps, its pid in $FAKE_WORKER_LOG.child, then hangs
//
// Otherwise every node becomes one unit whose source is the node's operator. Every job appends a
// line to $FAKE_WORKER_LOG.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "server/worker/worker_loop.h"

namespace {

using tensord::v1::CompileJob;
using tensord::v1::CompileResult;
using tensord::v1::JitJob;
using tensord::v1::JitResult;

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// What it has done since `start`.
template <class Result>
void AddSpan(Result& result, const std::string& name, uint64_t start) {
  auto* span = result.add_spans();
  span->set_name(name);
  span->set_start_nanoseconds(start);
  span->set_nanoseconds(Now() - start);
}

void Log(const std::string& line, const char* suffix = "") {
  const char* path = std::getenv("FAKE_WORKER_LOG");
  if (path == nullptr) return;
  const int fd = open((path + std::string(suffix)).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) < 0) abort();
  close(fd);
}

absl::StatusOr<CompileResult> Compile(const CompileJob& job) {
  Log("compile");
  const uint64_t start = Now();
  const std::string order = job.graph().nodes_size() > 0 ? job.graph().nodes(0).name() : "";
  if (order == "crash") raise(SIGSEGV);
  if (order == "killed") raise(SIGKILL);
  if (order == "spawn" && fork() == 0) {
    Log(std::to_string(getpid()), ".child");
    sleep(600);
  }
  if (order == "hang" || order == "spawn") sleep(600);
  if (order == "slow") usleep(300'000);
  if (order == "hoard") {
    std::vector<std::string> all;
    while (true) all.emplace_back(64 << 20, 'x');
  }
  if (order == "hoard_below") {
    for (int i = 0; i < 8; ++i) {
      if (fork() == 0) {
        const std::string mine(128 << 20, 'x');
        sleep(600);
      }
    }
    sleep(600);
  }
  if (order == "fat") {
    static std::string kept;
    kept.assign(600 << 20, 'x');
  }
  if (order == "invalid") {
    return absl::InvalidArgumentError("node 'invalid' (aten::nothing): unknown operator");
  }
  CompileResult result;
  *result.mutable_artifact()->mutable_target() = job.target();
  for (const auto& node : job.graph().nodes()) {
    const auto& library = job.library_nodes();
    if (std::find(library.begin(), library.end(), node.name()) != library.end()) {
      result.mutable_artifact()->add_steps()->mutable_call()->set_op(node.op());
      continue;
    }
    result.mutable_artifact()->add_modules();
    auto* launch = result.mutable_artifact()->add_steps()->mutable_launch();
    launch->set_module(result.artifact().modules_size() - 1);
    launch->set_function("f");
    auto* unit = result.add_units();
    const bool fails = order == "jit_fail" || node.name().rfind("fails", 0) == 0;
    unit->set_source(fails ? "jit_fail" : "// " + node.op());
    unit->add_nodes(node.name());
    unit->add_functions("f");
    unit->set_description(node.op());
  }
  auto* stage = result.add_stages();
  stage->set_stage("fake");
  stage->set_nanoseconds(1000);
  AddSpan(result, "fake", start);
  result.add_fusion_notes("nothing fuses");
  result.mutable_fusion()->add_steps()->set_kernel(0);
  return result;
}

absl::StatusOr<JitResult> Jit(const JitJob& job, const std::function<void(uint32_t)>& on_unit) {
  JitResult result;
  result.set_kind(tensord::v1::Module::SHARED_OBJECT);
  for (const auto& unit : job.units()) {
    Log("jit " + unit.source());
    const uint64_t start = Now();
    result.add_resources()->set_registers(7);
    if (unit.source() == "jit_fail") {
      auto* failure = result.add_failures();
      failure->set_unit(static_cast<uint32_t>(result.binaries_size()));
      failure->set_log("does not compile");
      result.add_binaries();
    } else {
      if (unit.source().find("slow") != std::string::npos) usleep(200'000);
      result.add_binaries("binary of " + unit.source());
    }
    AddSpan(result, "jit/kernel", start);
    if (on_unit != nullptr) on_unit(static_cast<uint32_t>(result.binaries_size()));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned cpu_seconds = 0;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--cpu-seconds") == 0) cpu_seconds = std::atoi(argv[i + 1]);
  }
  tensord::server::WorkerHandlers handlers;
  handlers.compile = Compile;
  handlers.jit = Jit;
  handlers.toolchain =
      [](const tensord::v1::Target&) -> absl::StatusOr<tensord::v1::ToolchainReply> {
    Log("toolchain");
    if (std::getenv("FAKE_NO_CXX") != nullptr) {
      return absl::FailedPreconditionError("no host compiler: install g++");
    }
    tensord::v1::ToolchainReply reply;
    const char* other = std::getenv("FAKE_TOOLCHAIN");
    reply.set_id(other == nullptr ? "fake toolchain" : other);
    return reply;
  };
  handlers.toolchain_list = [] {
    tensord::v1::ToolchainList list;
    auto* state = list.add_toolchains();
    state->set_name("fake compiler");
    state->set_found("1.0");
    return list;
  };
  handlers.operators = [] {
    Log("operators");
    return std::vector<std::string>{"aten::add.Tensor", "aten::mul.Tensor"};
  };
  return tensord::server::RunWorkerLoop(handlers, cpu_seconds);
}
