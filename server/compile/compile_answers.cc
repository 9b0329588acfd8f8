// SPDX-License-Identifier: Apache-2.0
// How a request ends: its reply, and what is kept of it in counters, log, jobs and traces.
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "server/compile/compile_call.h"
#include "server/fleet/programs.h"
#include "server/log/quoted.h"
#include "server/statistics/metrics.h"

namespace tensord::server {
namespace {

uint32_t CountLaunches(const v1::Artifact& artifact) {
  uint32_t launches = 0;
  for (const v1::Step& step : artifact.steps()) launches += step.has_launch();
  return launches;
}

}  // namespace

void CompileService::Finish(const CallPtr& call, const absl::Status& status) {
  if (call->waiting) {
    --metrics_->in_flight;
    board_.Leave(call->key, call->id);
  }
  if (status.ok()) {
    call->reply->set_program_key(call->key);
    call->reply->set_blob_folder(store_->blob_folder());
    call->reply->set_kernels(CountLaunches(call->reply->artifact()));
    jobs_.Used(call->caller.job(), fleet::ProgramName(call->key));
  } else {
    ++metrics_->failed;
  }
  const uint64_t nanoseconds = NanosecondsSince(call->start);
  const auto outcome = static_cast<size_t>(call->reply->outcome());
  metrics_->latencies[outcome].Add(nanoseconds);
  Note(*call, nanoseconds);
  const auto level = !status.ok()                                      ? spdlog::level::warn
                     : call->reply->outcome() == v1::CompileReply::HIT ? spdlog::level::debug
                                                                       : spdlog::level::info;
  if (spdlog::should_log(level)) {
    const v1::Caller& caller = call->caller;
    spdlog::log(
        level,
        "event=compile request={} outcome={} key={} label=\"{}\" nodes={} kernels={} "
        "made={}{} ms={:.2f} caller={} job=\"{}\" rank={}{}",
        call->id, kOutcomes[outcome], ToHex(call->key).substr(0, kShownDigits), Quoted(call->label),
        call->nodes, call->reply->kernels(), call->reply->kernels_compiled(),
        call->miss == nullptr ? "" : absl::StrCat(" miss=", call->miss),
        static_cast<double>(nanoseconds) / 1e6, caller.pid(), Quoted(caller.job()), caller.rank(),
        status.ok() ? "" : absl::StrCat(" error=\"", Quoted(status.ToString()), "\""));
  }
  KeepTrace(*call, status);
  // The reply may be gone as soon as this returns.
  call->done(status);
}

// For those who look at its job.
void CompileService::Note(const Call& call, uint64_t nanoseconds) {
  v1::JobRequest request;
  request.set_program_key(call.key);
  request.set_label(call.label);
  request.set_outcome(kOutcomes[static_cast<size_t>(call.reply->outcome())]);
  request.set_start_unix_milliseconds(absl::ToUnixMillis(absl::Now()) -
                                      static_cast<int64_t>(nanoseconds / 1'000'000));
  request.set_nanoseconds(nanoseconds);
  processes_.Answered(call.caller, std::move(request));
}

// For those who look at what it waited for. The last that reads the call.
void CompileService::KeepTrace(Call& call, const absl::Status& status) {
  SeenRequest seen;
  seen.id = call.id;
  seen.key = std::move(call.key);
  seen.caller.Swap(&call.caller);
  seen.label = std::move(call.label);
  if (!status.ok()) seen.error = Quoted(status.ToString());
  seen.outcome = kOutcomes[static_cast<size_t>(call.reply->outcome())];
  seen.start = call.came;
  seen.end = MonotonicNanoseconds();
  seen.start_unix_nanoseconds =
      absl::GetCurrentTimeNanos() - static_cast<int64_t>(seen.end - seen.start);
  seen.marks = std::move(call.marks);
  seen.compile = std::move(call.compile);
  traces_.Add(std::move(seen));
}

}  // namespace tensord::server
