// SPDX-License-Identifier: Apache-2.0
// Which programs and frames processes of a job used: what `tensorctl export --job` takes along and
// `tensorctl prefetch --job` brings before the job's next start. A list is kept in the store under
// the digest of the job's name, and lies in the fleet's tier, signed, under the kind "job": there
// as several blobs, of hosts that saw different things, which count together.
//
// A list only names; whatever it names is verified where it is used.
#ifndef TENSORD_SERVER_JOBS_JOB_LISTS_H_
#define TENSORD_SERVER_JOBS_JOB_LISTS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <map>
#include <set>
#include <string>
#include <thread>

#include "base/status.h"
#include "server/fleet/fleet.h"
#include "server/store/store.h"
#include "tensord/v1/fleet.pb.h"

namespace tensord::server {

// Under what a job's list lies in a tier.
fleet::Name JobName(const std::string& job);
// What the store knows of a job; empty: nothing, or what is damaged. A status is the disk's.
absl::StatusOr<v1::JobList> ReadJobList(store::Store& store, const std::string& job);
// Both together, each name with its last day of use, in order. Names that were not used for 30 days
// go, and those that were not used for longest where there are more than 16,384.
v1::JobList Merge(const v1::JobList& one, const v1::JobList& other);

// Every function may be called from several threads.
class JobLists {
 public:
  // Both outlive it; `fleet` is null for none. What is new is written `pause` later.
  JobLists(store::Store* store, fleet::Fleet* fleet, absl::Duration pause = absl::Seconds(10));
  // Writes nothing more.
  ~JobLists();

  // A process of the job used it. Nothing where the job has no name.
  void Used(const std::string& job, const fleet::Name& name);
  // Writes what is new, and gives it to the fleet.
  void Flush();

 private:
  struct Job {
    std::set<std::string> names;  // that this daemon has seen
    bool is_new = false;          // some are not written
  };

  void Run();  // a thread's
  // Nothing while the disk does not say what was known before: it would be lost.
  absl::Status Write(const std::string& job, const std::set<std::string>& names);

  store::Store* const store_;
  fleet::Fleet* const fleet_;
  const absl::Duration pause_;
  absl::Mutex writing_;  // before mutex_
  absl::Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool any_new_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_JOBS_JOB_LISTS_H_
