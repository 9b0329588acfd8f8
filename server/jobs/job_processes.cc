// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_processes.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "server/traces/callers.h"

namespace tensord::server {
namespace {

constexpr int kMostRequests = 32;  // of a process

void Add(const v1::JobCounts& counts, v1::JobCounts* sum) {
  sum->set_hits(sum->hits() + counts.hits());
  sum->set_compiled(sum->compiled() + counts.compiled());
  sum->set_joined(sum->joined() + counts.joined());
  sum->set_failed(sum->failed() + counts.failed());
  sum->set_waited_nanoseconds(sum->waited_nanoseconds() + counts.waited_nanoseconds());
  sum->set_frames_found(sum->frames_found() + counts.frames_found());
  sum->set_frames_not_found(sum->frames_not_found() + counts.frames_not_found());
  sum->set_frame_hits(sum->frame_hits() + counts.frame_hits());
  sum->set_captures(sum->captures() + counts.captures());
}

v1::JobCounts CountsOf(const v1::JobRequest& request) {
  v1::JobCounts counts;
  counts.set_hits(request.outcome() == "hit");
  counts.set_compiled(request.outcome() == "compiled");
  counts.set_joined(request.outcome() == "joined");
  counts.set_failed(request.outcome() == "failed");
  counts.set_waited_nanoseconds(request.nanoseconds());
  return counts;
}

}  // namespace

v1::JobProcess& JobProcesses::Of(const v1::Caller& caller) {
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  v1::Caller kept = KeptCaller(caller);
  const auto [place, is_new] = by_key_.try_emplace({kept.job(), kept.host(), kept.pid()});
  if (is_new) {
    latest_.emplace_front();
    latest_.front().set_first_unix(now);
    place->second = latest_.begin();
  } else {
    latest_.splice(latest_.begin(), latest_, place->second);
  }
  v1::JobProcess& process = latest_.front();
  *process.mutable_caller() = std::move(kept);
  process.set_last_unix(now);
  if (latest_.size() > most_) {
    const v1::Caller& oldest = latest_.back().caller();
    by_key_.erase({oldest.job(), oldest.host(), oldest.pid()});
    latest_.pop_back();
  }
  return process;
}

void JobProcesses::Answered(const v1::Caller& caller, v1::JobRequest request) {
  if (request.label().size() > kLongestCaller) request.clear_label();
  absl::MutexLock lock(&mutex_);
  v1::JobProcess& process = Of(caller);
  Add(CountsOf(request), process.mutable_counts());
  if (process.requests_size() >= kMostRequests) process.mutable_requests()->DeleteSubrange(0, 1);
  *process.add_requests() = std::move(request);
}

void JobProcesses::AskedForFrames(const v1::Caller& caller, bool found, bool captures) {
  v1::JobCounts counts;
  counts.set_frames_found(found);
  counts.set_frames_not_found(!found);
  counts.set_captures(captures);
  absl::MutexLock lock(&mutex_);
  Add(counts, Of(caller).mutable_counts());
}

void JobProcesses::Served(const v1::Caller& caller, uint64_t count) {
  v1::JobCounts counts;
  counts.set_frame_hits(count);
  absl::MutexLock lock(&mutex_);
  Add(counts, Of(caller).mutable_counts());
}

bool JobProcesses::Knows(const v1::Caller& caller) const {
  const v1::Caller kept = KeptCaller(caller);
  absl::MutexLock lock(&mutex_);
  return by_key_.count({kept.job(), kept.host(), kept.pid()}) != 0;
}

void JobProcesses::List(v1::ListJobsReply* reply) const {
  std::map<std::string, int> place;
  std::map<std::string, uint32_t> bridges;
  absl::MutexLock lock(&mutex_);
  for (const v1::JobProcess& process : latest_) {
    const auto [at, is_new] = place.emplace(process.caller().job(), reply->jobs_size());
    v1::JobSummary& job = is_new ? *reply->add_jobs() : *reply->mutable_jobs(at->second);
    if (is_new) {
      job.set_job(process.caller().job());
      job.set_first_unix(process.first_unix());
      job.set_last_unix(process.last_unix());
    }
    job.set_processes(job.processes() + 1);
    job.set_first_unix(std::min(job.first_unix(), process.first_unix()));
    Add(process.counts(), job.mutable_counts());
    if (!process.caller().bridge().empty()) ++bridges[process.caller().bridge()];
  }
  for (const auto& [bridge, count] : bridges) {
    v1::BridgeCount& one = *reply->add_bridges();
    one.set_bridge(bridge);
    one.set_processes(count);
  }
  std::stable_sort(
      reply->mutable_bridges()->begin(), reply->mutable_bridges()->end(),
      [](const auto& one, const auto& other) { return one.processes() > other.processes(); });
}

absl::Status JobProcesses::Get(const v1::GetJobRequest& request, v1::JobDetail* reply) const {
  std::vector<v1::JobProcess> found;
  {
    absl::MutexLock lock(&mutex_);
    for (const v1::JobProcess& process : latest_) {
      if (process.caller().job() == request.job()) found.push_back(process);
    }
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("no process of the job '", request.job(),
                                            "' has asked since the daemon's start"));
  }
  const auto order = [](const v1::JobProcess& process) {
    const v1::Caller& caller = process.caller();
    return std::make_tuple(caller.rank(), caller.host(), caller.pid());
  };
  std::sort(found.begin(), found.end(),
            [&](const auto& one, const auto& other) { return order(one) < order(other); });
  for (v1::JobProcess& process : found) *reply->add_processes() = std::move(process);
  return absl::OkStatus();
}

}  // namespace tensord::server
