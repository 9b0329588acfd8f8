// SPDX-License-Identifier: Apache-2.0
// A fixed number of places for workers, started when there is work and ended when idle. Whoever
// asks first has one first; one place is kept from what is expensive, where there are several.
//
// One thread of its own starts and ends processes; it sleeps unless there is something to do.
#ifndef TENSORD_SERVER_POOL_WORKER_POOL_H_
#define TENSORD_SERVER_POOL_WORKER_POOL_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <list>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "server/pool/cost.h"
#include "server/pool/worker_process.h"

namespace tensord::server {

struct Metrics;

struct PoolOptions {
  WorkerCommand command;
  int workers = 1;
  absl::Duration idle = absl::Seconds(60);        // a worker without work for this long is ended
  absl::Duration job_limit = absl::Seconds(300);  // wall time of a request's jobs together
};

class WorkerPool {
 public:
  WorkerPool(PoolOptions options, Metrics* metrics);
  ~WorkerPool();

  // Runs one job on a free worker; waits for one, which costs nothing of `budget`: the wall time
  // that the job may take, less what it took afterwards. The reply's own error becomes the status.
  // Unavailable: the pool is being stopped. Internal: the worker died or was too slow. `on_unit`
  // hears of each unit that a JitJob has done. The reply says whose it is, by its pid.
  absl::StatusOr<v1::WorkerReply> Call(const v1::WorkerRequest& request, Cost cost,
                                       absl::Duration& budget, const OnUnit& on_unit = nullptr);
  // The same for a request that is serialised already, in pieces that are not copied.
  absl::StatusOr<v1::WorkerReply> Call(absl::Span<const std::string_view> request, Cost cost,
                                       absl::Duration& budget, const OnUnit& on_unit = nullptr);
  // With the budget of a request that needs no more than this job, and is cheap.
  absl::StatusOr<v1::WorkerReply> Call(const v1::WorkerRequest& request);
  absl::Duration job_limit() const { return options_.job_limit; }

  int workers() const { return static_cast<int>(options_.workers); }
  // Places that work of that cost could have at this moment; a hint.
  int Free(Cost cost) const;
  // Processes that run now.
  int Running() const;
  // Ends every worker, also those at work; calls fail from here on.
  void Stop();

 private:
  enum class State { kEmpty, kWanted, kIdle, kBusy };
  struct Slot {
    State state = State::kEmpty;
    Cost cost = Cost::kCheap;  // of its work
    std::unique_ptr<WorkerProcess> process;
    absl::Time idle_since;
    absl::Status start_error;
  };

  struct Waiting {
    WorkerPool* pool;
    Cost cost;
  };
  absl::StatusOr<Slot*> Acquire(Cost cost) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(Slot* slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void Keep();  // the thread
  bool KeeperHasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  int FreeLocked(Cost cost) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool IsTurnOf(const Waiting& waiting) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Time NextExpiry() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const PoolOptions options_;
  Metrics* const metrics_;
  mutable absl::Mutex mutex_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);  // for a place, in the order of asking
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_POOL_WORKER_POOL_H_
