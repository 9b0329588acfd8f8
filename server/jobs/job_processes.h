// SPDX-License-Identifier: Apache-2.0
// Who asks for programs and frames: the last processes, by job, with what each has asked for since
// the daemon's start. In memory, for people.
#ifndef TENSORD_SERVER_JOBS_JOB_PROCESSES_H_
#define TENSORD_SERVER_JOBS_JOB_PROCESSES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <tuple>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// Of more than `most` processes the one that has not asked for longest goes. Every function may be
// called from several threads.
class JobProcesses {
 public:
  explicit JobProcesses(size_t most = 1024) : most_(most) {}

  // A request for a program has its answer.
  void Answered(const v1::Caller& caller, v1::JobRequest request);
  // A request for frames has got some, or none; the process is to capture.
  void AskedForFrames(const v1::Caller& caller, bool found, bool captures);
  // Frames have served so often.
  void Served(const v1::Caller& caller, uint64_t count);

  // Whether this process is one of them.
  bool Knows(const v1::Caller& caller) const;
  void List(v1::ListJobsReply* reply) const;
  // NotFound: no process of that job has asked.
  absl::Status Get(const v1::GetJobRequest& request, v1::JobDetail* reply) const;

 private:
  using Key = std::tuple<std::string, std::string, uint32_t>;  // job, host, process

  // What is counted for the caller, from now on the latest.
  v1::JobProcess& Of(const v1::Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  mutable absl::Mutex mutex_;
  std::list<v1::JobProcess> latest_ ABSL_GUARDED_BY(mutex_);  // first
  std::map<Key, std::list<v1::JobProcess>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_JOBS_JOB_PROCESSES_H_
