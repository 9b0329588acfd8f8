// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_lists.h"

#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "server/log/quoted.h"

namespace tensord::server {
namespace {

constexpr char kKind[] = "job";
constexpr size_t kMostJobs = 32;  // in memory
constexpr size_t kMostNames = 16384;
constexpr int64_t kMostDays = 30;
constexpr size_t kLongestName = 256;  // of a job

int64_t Today() { return absl::ToUnixSeconds(absl::Now()) / (24 * 3600); }

}  // namespace

fleet::Name JobName(const std::string& job) { return {kKind, Sha256(job)}; }

absl::StatusOr<v1::JobList> ReadJobList(store::Store& store, const std::string& job) {
  const auto bytes = store.GetJobList(JobName(job).key);
  v1::JobList list;
  if (absl::IsNotFound(bytes.status()) || absl::IsDataLoss(bytes.status())) return list;
  if (!bytes.ok()) return bytes.status();
  if (!list.ParseFromString(*bytes) || list.job() != job) list.Clear();
  return list;
}

v1::JobList Merge(const v1::JobList& one, const v1::JobList& other) {
  std::map<std::string, int64_t> days;
  for (const v1::JobList* list : {&one, &other}) {
    for (const v1::JobUse& use : list->used()) {
      int64_t& day = days[use.name()];
      day = std::max(day, use.day());
    }
  }
  std::vector<std::pair<int64_t, std::string>> latest;
  for (const auto& [name, day] : days) {
    if (day + kMostDays >= Today()) latest.emplace_back(-day, name);
  }
  std::sort(latest.begin(), latest.end());
  if (latest.size() > kMostNames) latest.resize(kMostNames);
  v1::JobList merged;
  merged.set_job(one.job().empty() ? other.job() : one.job());
  std::sort(latest.begin(), latest.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  for (auto& [day, name] : latest) {
    v1::JobUse& use = *merged.add_used();
    use.set_name(std::move(name));
    use.set_day(-day);
  }
  return merged;
}

JobLists::JobLists(store::Store* store, fleet::Fleet* fleet, absl::Duration pause)
    : store_(store), fleet_(fleet), pause_(pause), thread_([this] { Run(); }) {}

JobLists::~JobLists() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

void JobLists::Used(const std::string& job, const fleet::Name& name) {
  if (job.empty() || job.size() > kLongestName) return;
  const std::string path = name.Path();
  absl::MutexLock lock(&mutex_);
  // One that is forgotten here is read again with what it uses next.
  if (jobs_.size() >= kMostJobs && jobs_.count(job) == 0) {
    const auto written = std::find_if(jobs_.begin(), jobs_.end(),
                                      [](const auto& one) { return !one.second.is_new; });
    if (written == jobs_.end()) return;
    jobs_.erase(written);
  }
  Job& seen = jobs_[job];
  if (seen.names.size() >= kMostNames || !seen.names.insert(path).second) return;
  seen.is_new = any_new_ = true;
}

void JobLists::Run() {
  const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopped_ || any_new_; };
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&due));
      // More will follow.
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopped_), pause_)) return;
    }
    Flush();
  }
}

void JobLists::Flush() {
  absl::MutexLock writing(&writing_);
  std::vector<std::pair<std::string, std::set<std::string>>> due;
  {
    absl::MutexLock lock(&mutex_);
    any_new_ = false;
    for (auto& [job, seen] : jobs_) {
      if (std::exchange(seen.is_new, false)) due.emplace_back(job, seen.names);
    }
  }
  for (const auto& [job, names] : due) {
    const absl::Status written = Write(job, names);
    if (written.ok()) continue;
    spdlog::warn("event=job_list_not_read job=\"{}\" error=\"{}\"", Quoted(job),
                 written.ToString());
    absl::MutexLock lock(&mutex_);  // it is tried again with what comes next
    if (const auto seen = jobs_.find(job); seen != jobs_.end()) seen->second.is_new = true;
  }
}

absl::Status JobLists::Write(const std::string& job, const std::set<std::string>& names) {
  v1::JobList seen;
  seen.set_job(job);
  for (const std::string& name : names) {
    v1::JobUse& use = *seen.add_used();
    use.set_name(name);
    use.set_day(Today());
  }
  TENSORD_ASSIGN_OR_RETURN(const v1::JobList before, ReadJobList(*store_, job));
  const std::string bytes = Merge(seen, before).SerializeAsString();
  const fleet::Name name = JobName(job);
  if (bytes != before.SerializeAsString()) store_->PutJobList(name.key, bytes);
  if (fleet_ == nullptr) return absl::OkStatus();
  // Also when the store knew all of it: the tier may have lost it, or have been away.
  fleet_->Add(name, [bytes]() -> absl::StatusOr<fleet::Blob> {
    return fleet::Blob{Sha256(bytes), "", bytes};
  });
  return absl::OkStatus();
}

}  // namespace tensord::server
