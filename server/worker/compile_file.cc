// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_file.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

#include "compiler/compile.h"
#include "server/program/job_file.h"
#include "server/worker/thrown.h"

namespace tensord::server {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;
constexpr const char* kDefaultCpu = "avx2";
constexpr const char* kDefaultCuda = "sm_90";

int Fail(const absl::Status& status, int code) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return code;
}

// Ends the process as a failure of the compiler ends: a broken invariant has said what it is.
void Died(int /*signal*/) {
  constexpr std::string_view kText = "INTERNAL: the compiler died behind what it printed last\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(kExitFailed);
}

void SayWhereItDied() {
  // A stack that has overflowed has no room for a handler.
  static char stack[64 << 10];
  const stack_t alternative = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = Died;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

absl::StatusOr<v1::Target> ParseTarget(const std::string& name) {
  v1::Target target;
  absl::string_view rest = name;
  uint32_t sm = 0;
  if (absl::ConsumePrefix(&rest, "sm_") && absl::SimpleAtoi(rest, &sm) && sm > 0) {
    target.mutable_cuda()->set_sm(sm);
    return target;
  }
  for (const auto& [isa, known] :
       {std::pair(v1::ISA_SCALAR, "scalar"), std::pair(v1::ISA_AVX2, "avx2"),
        std::pair(v1::ISA_AVX512, "avx512")}) {
    if (name != known) continue;
    target.mutable_cpu()->set_isa(isa);
    return target;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no target '", name, "'; there are scalar, avx2, avx512 and sm_NN"));
}

int CompileFile(const CompileFileOptions& options) {
  std::ifstream in(options.file, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  if (!in) {
    return Fail(absl::NotFoundError(absl::StrCat("cannot read ", options.file)), kExitUsage);
  }
  absl::StatusOr<v1::CompileJob> job = ParseJob(content.str());
  if (!job.ok()) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(options.file, ": ", job.status().message())),
        kExitUsage);
  }
  std::string name = options.target;
  if (name.empty() && !job->has_target()) name = IsOnGpu(job->graph()) ? kDefaultCuda : kDefaultCpu;
  if (!name.empty()) {
    const absl::StatusOr<v1::Target> target = ParseTarget(name);
    if (!target.ok()) return Fail(target.status(), kExitUsage);
    *job->mutable_target() = *target;
  }
  SayWhereItDied();
  const absl::Status status = StatusOfThrown([&] {
    return compiler::CompileAndDump(*job, options.dump_after, [](const std::string& dump) {
      std::fwrite(dump.data(), 1, dump.size(), stdout);
      std::fflush(stdout);
    });
  });
  if (status.ok()) return 0;
  if (absl::IsNotFound(status)) return Fail(status, kExitUsage);
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return kExitFailed;
}

}  // namespace tensord::server
