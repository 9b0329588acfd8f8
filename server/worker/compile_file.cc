// SPDX-License-Identifier: Apache-2.0
#include "server/worker/compile_file.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "compiler/compile.h"
#include "server/worker/thrown.h"

namespace tensord::server {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2;
constexpr const char* kDefaultCpu = "avx2";
constexpr const char* kDefaultCuda = "sm_90";

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

// The message, where the content is one and nothing else: bytes of another message often parse too,
// but leave fields that this one does not know.
template <typename Message>
std::optional<Message> Parse(const std::string& content) {
  const google::protobuf::LogSilencer silencer;  // what is no such message is no error yet
  Message message;
  if (message.ParseFromString(content)) {
    const size_t size = message.ByteSizeLong();
    message.DiscardUnknownFields();
    if (size > 0 && message.ByteSizeLong() == size) return message;
  }
  google::protobuf::TextFormat::Parser parser;
  Silent silent;
  parser.RecordErrorsTo(&silent);
  if (parser.ParseFromString(content, &message) && message.ByteSizeLong() > 0) return message;
  return std::nullopt;
}

bool IsOnGpu(const v1::Graph& graph) {
  for (const v1::Input& input : graph.inputs()) {
    if (input.tensor().device() == v1::DEVICE_TYPE_CUDA) return true;
  }
  return false;
}

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

absl::StatusOr<v1::CompileJob> ParseJob(const std::string& content) {
  if (auto job = Parse<v1::CompileJob>(content); job && job->has_graph() && job->has_target()) {
    return *std::move(job);
  }
  if (auto graph = Parse<v1::Graph>(content)) {
    v1::CompileJob job;
    TENSORD_ASSIGN_OR_RETURN(*job.mutable_target(),
                             ParseTarget(IsOnGpu(*graph) ? kDefaultCuda : kDefaultCpu));
    *job.mutable_graph() = *std::move(graph);
    return job;
  }
  return absl::InvalidArgumentError(
      "neither a CompileJob, as in the store's repros folder, nor a Graph, serialised or as text");
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
  if (!options.target.empty()) {
    const absl::StatusOr<v1::Target> target = ParseTarget(options.target);
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
