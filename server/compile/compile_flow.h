// SPDX-License-Identifier: Apache-2.0
// What one miss takes, from a graph to a published program:
//
//   CompileJob to a worker -> kernel units -> key of each -> kernel store -> JitJob of those
//   missing, spread over the workers that are free -> blobs -> digests into the artifact ->
//   manifest published
//
// Where some units do not compile, the graph is compiled again with their operators as library
// calls.
//
// Blocks; runs on a compile thread. Knows nothing of requests, joining or RPC.
#ifndef TENSORD_SERVER_COMPILE_COMPILE_FLOW_H_
#define TENSORD_SERVER_COMPILE_COMPILE_FLOW_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/compile/compile_board.h"
#include "server/compile/flights.h"
#include "server/fleet/fleet.h"
#include "server/pool/worker_pool.h"
#include "server/program/library_nodes.h"
#include "server/store/store.h"
#include "server/traces/span_log.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

struct Metrics;

struct FlowInput {
  std::string job;  // a serialised CompileJob: graph, target and options
  v1::Target target;
  std::string label;
  int nodes = 0;
  Cost cost = Cost::kCheap;
  std::string program_key;
  std::string toolchain;
  std::string compiler_build;
  // What is stored with the program of its key: for who misses one that is near, and for people.
  store::ProgramTraits traits;
  v1::ProgramDetail key_detail;
  // What is left of the time that a miss may wait for the fleet's answers; zero: it is not asked.
  absl::Duration fleet_time;
  SpanLog* spans = nullptr;  // where it says when its stages ran, whatever comes of them; not null
};

struct FlowOutput {
  v1::Artifact artifact;
  std::vector<v1::StageTime> stages;
  std::vector<std::string> kernels_made;     // by the JIT, by their keys
  std::vector<std::string> kernel_failures;  // logs of units that library calls replace
};

class CompileFlow {
 public:
  // `units_per_job`: how many units one worker compiles at once. `board`: where it says how far it
  // is. `fleet`: null for none.
  CompileFlow(WorkerPool* pool, store::Store* store, fleet::Fleet* fleet, Metrics* metrics,
              CompileBoard* board, int units_per_job)
      : pool_(pool),
        store_(store),
        fleet_(fleet),
        metrics_(metrics),
        board_(board),
        units_per_job_(units_per_job) {}

  // An Internal status says where the graph was kept.
  absl::StatusOr<FlowOutput> Run(const FlowInput& input);

 private:
  struct Kernel {
    std::string key;
    const v1::KernelUnit* unit = nullptr;
    store::KernelRow row;  // once it is stored
  };

  // How many of a program's kernels there are; thread-safe.
  class ReadyKernels {
   public:
    ReadyKernels(CompileBoard* board, const std::string& program_key, size_t kernels)
        : board_(board), program_key_(program_key), kernels_(static_cast<uint32_t>(kernels)) {
      Add(0);
    }
    void Add(uint32_t more) {
      absl::MutexLock lock(&mutex_);
      ready_ += more;
      board_->SetKernels(program_key_, ready_, kernels_);
    }

   private:
    CompileBoard* const board_;
    const std::string& program_key_;
    const uint32_t kernels_;
    absl::Mutex mutex_;
    uint32_t ready_ ABSL_GUARDED_BY(mutex_) = 0;
  };

  // One attempt to compile a graph.
  struct Attempt {
    std::set<std::string> library;   // nodes that are to be library calls
    std::vector<std::string> logs;   // of the attempts before
    std::vector<FailedUnit> failed;  // now; some others did compile where `some_made`
    bool some_made = false;
    absl::Duration fleet_time;  // left of FlowInput's
  };

  // `budget`: wall time that workers may still spend on the request; what they take is taken off.
  absl::StatusOr<FlowOutput> CompileWithoutFailing(const FlowInput& input, absl::Duration& budget);
  absl::StatusOr<FlowOutput> Compile(const FlowInput& input, Attempt& attempt,
                                     absl::Duration& budget);
  // The compiler's answer, from a worker.
  absl::StatusOr<v1::WorkerReply> CallCompiler(const FlowInput& input,
                                               absl::Span<const std::string_view> request,
                                               absl::Duration& budget);
  absl::StatusOr<std::string> KeepRepro(const FlowInput& input, const std::string& failure);
  // Finds or makes every kernel; `made`: the keys of those that it made.
  absl::Status MakeKernels(const FlowInput& input, std::vector<Kernel>& kernels,
                           std::vector<v1::StageTime>& stages, std::vector<std::string>& made,
                           Attempt& attempt, absl::Duration& budget);
  // Whether the store has it; then it is ready.
  bool FindKernel(const FlowInput& input, Kernel& kernel, ReadyKernels& ready);
  // Takes off `mine`, which the caller has claimed, what another host of the fleet has made.
  void FetchFromFleet(const FlowInput& input, std::vector<Kernel*>& mine, ReadyKernels& ready,
                      Attempt& attempt);
  absl::Status Jit(const FlowInput& input, const std::vector<Kernel*>& kernels, ReadyKernels& ready,
                   std::vector<v1::StageTime>& stages, std::vector<FailedUnit>& failed,
                   absl::Duration& budget);
  // What one of several workers has done.
  struct Share {
    explicit Share(absl::Duration budget) : budget(budget), spans("") {}
    std::vector<Kernel*> kernels;
    std::vector<v1::StageTime> stages;
    std::vector<FailedUnit> failed;
    absl::Duration budget;
    SpanLog spans;
  };
  absl::Status JitOnOneWorker(const FlowInput& input, Share& share, ReadyKernels& ready);
  absl::Status Publish(const FlowInput& input, const v1::CompileResult& result,
                       const std::vector<Kernel>& kernels, FlowOutput& output,
                       uint64_t nanoseconds);

  WorkerPool* const pool_;
  store::Store* const store_;
  fleet::Fleet* const fleet_;
  Metrics* const metrics_;
  CompileBoard* const board_;
  const int units_per_job_;
  KernelFlights kernel_flights_;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_COMPILE_FLOW_H_
