// SPDX-License-Identifier: Apache-2.0
#include "server/ahead/ahead_compiler.h"

#include <absl/strings/str_cat.h>
#include <absl/synchronization/notification.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "server/ahead/targets.h"
#include "server/program/job_file.h"

namespace tensord::server {
namespace {

constexpr const char* kOutcomeNames[] = {"made", "hit", "failed", "skipped"};

AheadOutcome OutcomeOf(v1::CompileReply::Outcome outcome) {
  // What another graph of the same program made counts once.
  return outcome == v1::CompileReply::COMPILED ? AheadOutcome::kMade : AheadOutcome::kHit;
}

}  // namespace

const char* NameOf(AheadOutcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

struct AheadCompiler::Pending {
  AheadResult result;
  v1::CompileReply reply;
  absl::Status status;
  absl::Notification done;
};

AheadCompiler::AheadCompiler(CompileService* service, AheadOptions options,
                             std::function<void(const AheadResult&)> report)
    : service_(*service), options_(std::move(options)), report_(std::move(report)) {}

AheadCompiler::~AheadCompiler() { Finish(); }

void AheadCompiler::Compile(const AheadGraph& graph) {
  if (options_.own_first && graph.target.has_value()) return Start(graph, *graph.target);
  const bool on_gpu = IsOnGpu(graph.graph);
  bool any = false;
  for (const v1::Target& target : options_.targets) {
    if (target.has_cuda() != on_gpu) continue;
    any = true;
    Start(graph, target);
  }
  if (any) return;
  AheadResult result{graph.name, graph.label};
  result.outcome = AheadOutcome::kSkipped;
  result.why = absl::StrCat("its tensors lie on ", on_gpu ? "a GPU" : "the CPU",
                            ", and no target is one of those: see --target");
  Settle(std::move(result));
}

void AheadCompiler::Fail(const std::string& name, const std::string& why) {
  AheadResult result{name};
  result.why = why;
  Settle(std::move(result));
}

void AheadCompiler::Settle(AheadResult result) {
  Finish();
  Report(result);
}

void AheadCompiler::Start(const AheadGraph& graph, const v1::Target& target) {
  v1::CompileRequest request;
  *request.mutable_graph() = graph.graph;
  *request.mutable_target() = target;
  *request.mutable_options() = graph.options;
  std::string bytes = request.SerializeAsString();
  if (!seen_.insert(Sha256(bytes)).second) return;
  request.set_label(graph.label);
  request.mutable_caller()->set_pid(static_cast<uint32_t>(getpid()));
  request.mutable_caller()->set_job(options_.job);
  bytes = request.SerializeAsString();

  while (pending_.size() >= std::max<size_t>(1, options_.most_at_once)) SettleFirst();
  Pending* const pending = pending_.emplace_back(std::make_unique<Pending>()).get();
  pending->result.name = graph.name;
  pending->result.label = graph.label;
  pending->result.target = TargetName(target);
  service_.Compile(std::move(bytes), {}, &pending->reply, [pending](absl::Status status) {
    pending->status = std::move(status);
    pending->done.Notify();
  });
}

void AheadCompiler::Report(const AheadResult& result) {
  ++counts_[static_cast<size_t>(result.outcome)];
  report_(result);
}

void AheadCompiler::SettleFirst() {
  Pending& pending = *pending_.front();
  pending.done.WaitForNotification();
  AheadResult& result = pending.result;
  if (pending.status.ok()) {
    result.outcome = OutcomeOf(pending.reply.outcome());
    result.key = pending.reply.program_key();
    result.kernels = pending.reply.kernels();
    result.kernels_made = pending.reply.kernels_compiled();
    if (!pending.reply.kernel_failures().empty()) {
      result.why = absl::StrCat("library calls instead of ", pending.reply.kernel_failures_size(),
                                " kernels that do not compile: ", pending.reply.kernel_failures(0));
    }
  } else {
    result.why = pending.status.ToString();
  }
  Report(result);
  pending_.pop_front();
}

void AheadCompiler::Finish() {
  while (!pending_.empty()) SettleFirst();
}

}  // namespace tensord::server
