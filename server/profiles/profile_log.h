// SPDX-License-Identifier: Apache-2.0
// The latest profiles of jobs. In memory, for people.
#ifndef TENSORD_SERVER_PROFILES_PROFILE_LOG_H_
#define TENSORD_SERVER_PROFILES_PROFILE_LOG_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// Every function may be called from several threads.
class ProfileLog {
 public:
  // At most `per_process` of one process and about `most_bytes` in all, the latest.
  explicit ProfileLog(size_t most_bytes = 32 << 20, size_t per_process = 8)
      : most_bytes_(most_bytes), per_process_(per_process) {}

  // Its number, from 1 on. InvalidArgument: CheckProfile's. ResourceExhausted: it would take more
  // than a fourth of all that is kept. Nothing is kept of it then, and what was there stays.
  absl::StatusOr<uint64_t> Put(v1::PutProfileRequest request);
  // The latest first; none where nothing in particular was asked for. NotFound: none is kept of
  // what was asked for. FailedPrecondition: several programs begin with the prefix.
  absl::Status Get(const v1::GetProfilesRequest& request, v1::Profiles* reply) const;

  size_t bytes() const;

 private:
  using Stored = std::shared_ptr<const v1::StoredProfile>;

  std::vector<Stored> All() const;
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(std::deque<Stored>::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_bytes_, per_process_;
  mutable absl::Mutex mutex_;
  std::deque<Stored> profiles_ ABSL_GUARDED_BY(mutex_);  // the latest last
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROFILES_PROFILE_LOG_H_
