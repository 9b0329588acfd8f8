// SPDX-License-Identifier: Apache-2.0
// The worker's side of the socket: reads a job, does it, replies, until the daemon closes.
#ifndef TENSORD_SERVER_WORKER_WORKER_LOOP_H_
#define TENSORD_SERVER_WORKER_WORKER_LOOP_H_

#include <functional>

#include "base/status.h"
#include "tensord/v1/worker.pb.h"

namespace tensord::server {

struct WorkerHandlers {
  std::function<absl::StatusOr<v1::CompileResult>(const v1::CompileJob&)> compile;
  // `on_unit`, unless it is null: to be called with how many units are done, by one thread at a
  // time.
  std::function<absl::StatusOr<v1::JitResult>(const v1::JitJob&,
                                              const std::function<void(uint32_t)>& on_unit)>
      jit;
  std::function<absl::StatusOr<v1::ToolchainReply>(const v1::Target&)> toolchain;
  std::function<v1::ToolchainList()> toolchain_list;
  std::function<std::vector<std::string>()> operators;
};

// `cpu_seconds`: CPU time that one job may use, this process and each of its children; 0: no limit.
// Returns the exit code.
int RunWorkerLoop(const WorkerHandlers& handlers, unsigned cpu_seconds);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_WORKER_WORKER_LOOP_H_
