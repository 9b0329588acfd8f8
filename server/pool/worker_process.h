// SPDX-License-Identifier: Apache-2.0
// One tensord-worker: a child process in a process group of its own, spoken to over a socket pair.
#ifndef TENSORD_SERVER_POOL_WORKER_PROCESS_H_
#define TENSORD_SERVER_POOL_WORKER_PROCESS_H_

#include <absl/time/time.h>
#include <absl/types/span.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {

// Of an Internal status: the job took more time or memory than it may, so that it would again.
bool IsOverBudget(const absl::Status& status);
absl::Status OverBudget(const std::string& message);
// Of an Internal status: the worker died of itself, by a signal that nobody else sends.
bool IsCrash(const absl::Status& status);

struct WorkerCommand {
  std::string path;
  std::vector<std::string> args;  // after the path
  // "NAME=value" besides this process's, for what other users must not see in a list of processes.
  std::vector<std::string> environment;
  // Address space of the worker and of each child, and memory of all of them together; 0: no limit.
  uint64_t memory_bytes = 0;
};

// Called with how many units of a job are done.
using OnUnit = std::function<void(uint32_t done)>;

class WorkerProcess {
 public:
  // Starts one. The child is told to end when the calling *thread* ends (that is how the kernel
  // defines a parent's death), so call this from a thread that lives as long as the workers should.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const WorkerCommand& command);
  // Kills the whole group (a host compiler that the worker started goes too) and reaps the worker.
  ~WorkerProcess();

  // One job. Internal: the worker died (the message says how) or did not answer within `limit`
  // (IsOverBudget, as when it died of its limit of CPU time, or took more memory than it may); the
  // process is then of no use and healthy() is false. A job's own error is in the reply, and the
  // worker is of no use either if that was for want of memory.
  // `request`: a serialised WorkerRequest, in pieces. `on_unit` hears of each unit that a JitJob
  // has done.
  absl::StatusOr<v1::WorkerReply> Call(absl::Span<const std::string_view> request,
                                       absl::Duration limit, const OnUnit& on_unit = nullptr);

  // Of a reply's error, out_of_memory: whether it was this worker's limit that it met.
  bool HasOwnLimitOnly() const;
  // Whether its jobs have left the next one at least half of the memory.
  bool IsSlim() const;

  bool healthy() const { return healthy_; }
  // False when the process has ended while it had nothing to do.
  bool Alive() const;
  pid_t pid() const { return pid_; }
  // Safe from any thread while the object exists: ends a Call early.
  void Kill() const;

 private:
  WorkerProcess(pid_t pid, int fd, uint64_t memory_bytes)
      : pid_(pid), fd_(fd), memory_bytes_(memory_bytes) {}
  // At the memory of worker and compilers, of one request; times are of SteadyNow().
  struct Looks {
    absl::Time next;
    int above = 0;  // that one after the other found too much
  };
  // Until the worker says something. Internal: too much memory.
  absl::Status AwaitWord(absl::Time deadline, Looks& looks) const;
  absl::Status Died();

  const pid_t pid_;
  const int fd_;
  const uint64_t memory_bytes_;
  bool healthy_ = true;
  std::atomic<bool> reaped_ = false;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_POOL_WORKER_PROCESS_H_
