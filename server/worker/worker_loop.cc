// SPDX-License-Identifier: Apache-2.0
#include "server/worker/worker_loop.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "server/worker/framing.h"
#include "server/worker/thrown.h"

namespace tensord::server {
namespace {

// The daemon is gone, or wants this worker gone: so does every compiler that it has started.
void EndGroup(int) { kill(0, SIGKILL); }

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1000;
}

uint64_t CpuNanoseconds(bool with_children) {
  uint64_t sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    if (who == RUSAGE_CHILDREN && !with_children) continue;
    rusage usage;
    if (getrusage(who, &usage) == 0) {
      sum += Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
    }
  }
  return sum;
}

// The limit counts from the process's start, so it moves along with every job.
void LimitCpu(unsigned seconds) {
  rlimit limit;
  if (seconds == 0 || getrlimit(RLIMIT_CPU, &limit) != 0) return;
  limit.rlim_cur = CpuNanoseconds(false) / 1'000'000'000 + seconds + 1;
  setrlimit(RLIMIT_CPU, &limit);
}

template <class T, class Store>
absl::Status Take(absl::StatusOr<T> result, Store store) {
  if (result.ok()) store(*std::move(result));
  return result.status();
}

// A daemon that does not take it is gone, which the reply finds out too.
void SendUnitsDone(uint32_t done) {
  v1::WorkerReply progress;
  progress.set_units_done(done);
  WriteFrame(kWorkerFd, progress).IgnoreError();
}

absl::Status Handle(const WorkerHandlers& handlers, const v1::WorkerRequest& request,
                    v1::WorkerReply& reply) {
  switch (request.kind_case()) {
    case v1::WorkerRequest::kCompile:
      return Take(handlers.compile(request.compile()),
                  [&](v1::CompileResult&& r) { *reply.mutable_compiled() = std::move(r); });
    case v1::WorkerRequest::kJit:
      return Take(handlers.jit(request.jit(), request.jit().reports_units()
                                                  ? std::function<void(uint32_t)>(SendUnitsDone)
                                                  : nullptr),
                  [&](v1::JitResult&& r) { *reply.mutable_jitted() = std::move(r); });
    case v1::WorkerRequest::kToolchain:
      return Take(handlers.toolchain(request.toolchain().target()),
                  [&](v1::ToolchainReply&& r) { *reply.mutable_toolchain() = std::move(r); });
    case v1::WorkerRequest::kToolchainList:
      *reply.mutable_toolchain_list() = handlers.toolchain_list();
      return absl::OkStatus();
    case v1::WorkerRequest::kOperators:
      reply.mutable_operators();
      for (std::string& name : handlers.operators()) {
        reply.mutable_operators()->add_operators(std::move(name));
      }
      return absl::OkStatus();
    case v1::WorkerRequest::KIND_NOT_SET:
      break;
  }
  return absl::UnimplementedError(
      "the worker does not know this request: daemon and worker are of "
      "different versions");
}

}  // namespace

int RunWorkerLoop(const WorkerHandlers& handlers, unsigned cpu_seconds) {
  signal(SIGTERM, EndGroup);
  signal(SIGINT, SIG_IGN);  // Ctrl-C in the daemon's terminal is for the daemon
  while (true) {
    v1::WorkerRequest request;
    const absl::Status read = ReadFrame(kWorkerFd, &request);
    if (absl::IsOutOfRange(read)) return 0;
    if (!read.ok()) return 1;
    LimitCpu(cpu_seconds);
    const uint64_t before = CpuNanoseconds(true);
    v1::WorkerReply reply;
    const absl::Status status = StatusOfThrown([&] { return Handle(handlers, request, reply); });
    reply.set_code(static_cast<int>(status.code()));
    reply.set_message(std::string(status.message()));
    reply.set_out_of_memory(IsOutOfMemory(status));
    reply.set_cpu_nanoseconds(CpuNanoseconds(true) - before);
    if (!WriteFrame(kWorkerFd, reply).ok()) return 1;
  }
}

}  // namespace tensord::server
