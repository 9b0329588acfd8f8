// SPDX-License-Identifier: Apache-2.0
// The daemon without RPC: admission, keys, look-up, one flight per program.
//
//   request ─ checked ─ key ─┬─ found in the store ──────────────────────────────▶ HIT
//                            ├─ found in the fleet, and taken into the store ─────▶ HIT
//                            └─ a flight of that key? ─ yes: wait with it ────────▶ JOINED
//                                          no: lead, in turn, on a compile thread ▶ COMPILED
#ifndef TENSORD_SERVER_COMPILE_COMPILE_SERVICE_H_
#define TENSORD_SERVER_COMPILE_COMPILE_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "server/compile/compile_board.h"
#include "server/compile/compile_flow.h"
#include "server/compile/executor.h"
#include "server/compile/failures.h"
#include "server/compile/flights.h"
#include "server/compile/program_misses.h"
#include "server/compile/request_memory.h"
#include "server/compile/worker_facts.h"
#include "server/fleet/fleet.h"
#include "server/jobs/job_lists.h"
#include "server/jobs/job_processes.h"
#include "server/pool/worker_pool.h"
#include "server/profiles/profile_log.h"
#include "server/store/store.h"
#include "server/traces/request_traces.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

struct Metrics;

struct ServiceOptions {
  PoolOptions pool;
  std::string cxx;
  std::string jit_settings;                         // what else decides the JIT's output
  int units_per_job = 1;                            // what one worker compiles at once
  uint64_t max_waiting = 512;                       // compiles that may wait or be under way
  absl::Duration queue_limit = absl::Seconds(300);  // how long a request waits for its turn
  uint64_t request_memory = 256 << 20;              // bytes of requests that are held at once
};

class CompileService {
 public:
  // `done` is called exactly once, on this thread or another.
  using Done = std::function<void(absl::Status)>;

  // `fleet`, null for none, outlives the service, and is stopped when the service is destroyed.
  CompileService(ServiceOptions options, std::unique_ptr<store::Store> store,
                 std::string store_problem, fleet::Fleet* fleet = nullptr);
  // Abort() first if flights may still be up.
  ~CompileService();

  // `request` is a serialised CompileRequest and `share` the memory that is counted for it; `reply`
  // must live until `done`. A small request's stored program is answered before this returns; large
  // ones are read by a thread that answers questions. Callers (a job, or a process without one)
  // compile in turn.
  // InvalidArgument, Unimplemented: the graph. ResourceExhausted: too many wait, or this one waited
  // too long. FailedPrecondition: no host compiler. Internal: the compiler failed. Unavailable: the
  // daemon is stopping. `came`: when it came, by the spans' clock, if it had to wait to be
  // received.
  void Compile(std::string request, RequestMemory::Share share, v1::CompileReply* reply, Done done,
               uint64_t came = 0);
  RequestMemory& request_memory() { return memory_; }
  // What a neighbour of this service shares with it.
  store::Store* store() { return store_.get(); }
  Metrics* metrics() { return metrics_.get(); }
  JobLists* jobs() { return &jobs_; }
  CompileBoard& board() { return board_; }
  JobProcesses* processes() { return &processes_; }
  // Finds out what Hello says, so that nobody waits for a worker's start; does not wait. Trouble is
  // Hello's to tell.
  void PrepareGreeting();
  void Hello(v1::HelloReply* reply, Done done);
  void ListToolchains(v1::ToolchainList* reply, Done done);

  void FillStats(v1::Stats* stats);
  absl::Status ListPrograms(const v1::ListProgramsRequest& request, v1::ListProgramsReply* reply);
  absl::Status GetProgram(const v1::GetProgramRequest& request, v1::ProgramDetail* reply);
  absl::StatusOr<std::string> ReadBlob(const std::string& sha256);
  // What a job did for programs that it asked for; how many of them are kept. Statuses of
  // RequestTraces::Put.
  absl::StatusOr<uint32_t> PutSpans(const v1::PutSpansRequest& request);
  // NotFound: nothing is known of what is asked for.
  absl::Status GetTraces(const v1::GetTracesRequest& request, v1::Traces* reply);
  // What a job measured; its number. Statuses of ProfileLog::Put. FailedPrecondition: the process
  // has asked for nothing since the daemon's start, and of its programs none is stored.
  absl::StatusOr<uint64_t> PutProfile(v1::PutProfileRequest request);
  // Why programs were compiled.
  void ListMisses(const v1::ListMissesRequest& request, v1::ListMissesReply* reply) const {
    misses_.List(request, reply);
  }
  // Statuses of ProfileLog::Get.
  absl::Status GetProfiles(const v1::GetProfilesRequest& request, v1::Profiles* reply);

  // From here on no compile is taken: who asks for one is kept until Abort(), and can then ask the
  // next daemon. What is stored is still found, who wants what is being compiled joins, and what
  // waits for its turn has it.
  void Drain() { draining_ = true; }
  // Requests that Drain() keeps.
  uint64_t Kept() const;
  // Fails what waits, with Unavailable, and ends the workers.
  void Abort();

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;
  // What a flight needs of the request that began it.
  struct Task {
    FlowInput input;
    RequestMemory::Share share;
    v1::Caller caller;
  };
  using Flights = ProgramFlights<Task, CallPtr>;

  // Reads the request, then Start, unless a worker is to be asked first.
  void Begin(const CallPtr& call);
  absl::Status Read(const CallPtr& call, const WorkerFacts::Toolchain* toolchain);
  void Start(const CallPtr& call);
  void StartFlight(const CallPtr& call);
  // `hits`: what counts it when it is found.
  bool TryStored(const CallPtr& call, std::atomic<uint64_t>& hits);
  bool HasProgramOf(const v1::Profile& profile);
  void RunFlights();
  void Fly(Flights::Turn turn);
  // Finds out why the program is not stored, counts it and keeps it for ListMisses; the reason's
  // name. Puts what is to be stored of the key into the task.
  absl::StatusOr<const char*> NoteMiss(Flights::Turn& turn);
  void RefuseLate();  // a thread's
  void Wait(const CallPtr& call);
  bool KeepWhileStopping(const CallPtr& call);
  // This call does not make what the fleet may have left to this host.
  void GiveUpLease(const CallPtr& call);
  void Refuse(const CallPtr& call);
  void Finish(const CallPtr& call, const absl::Status& status);
  void Note(const Call& call, uint64_t nanoseconds);
  void KeepTrace(Call& call, const absl::Status& status);

  const ServiceOptions options_;
  const std::string store_problem_;
  const std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<store::Store> store_;
  fleet::Fleet* const fleet_;
  JobLists jobs_;
  JobProcesses processes_;
  WorkerPool pool_;
  WorkerFacts facts_;
  CompileBoard board_;
  RequestTraces traces_;
  ProfileLog profiles_;
  ProgramMisses misses_;
  CompileFlow flow_;
  RecentFailures failures_;
  RequestMemory memory_;
  absl::Mutex large_;  // held while a large request is parsed
  Flights flights_;
  std::atomic<uint64_t> next_id_{1};
  std::atomic<bool> draining_{false};
  std::atomic<bool> aborted_{false};
  mutable absl::Mutex kept_mutex_;
  std::vector<CallPtr> kept_ ABSL_GUARDED_BY(kept_mutex_);
  std::atomic<uint64_t> asking_{0};  // requests whose toolchain a worker is asked for
  Executor executor_;                // after what its threads use
  std::thread late_;                 // runs RefuseLate
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_COMPILE_SERVICE_H_
