// SPDX-License-Identifier: Apache-2.0
// Counters of this daemon. Each is written where the event happens and read by GetStats.
#ifndef TENSORD_SERVER_STATISTICS_METRICS_H_
#define TENSORD_SERVER_STATISTICS_METRICS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "server/statistics/latency.h"
#include "server/statistics/miss_reasons.h"
#include "tensord/v1/compile.pb.h"

namespace tensord::v1 {
class Stats;
}

namespace tensord::server {

// What became of a request, by CompileReply.Outcome.
inline constexpr std::array<const char*, 4> kOutcomes = {"failed", "compiled", "joined", "hit"};

struct Metrics {
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> compiled{0};
  std::atomic<uint64_t> joined{0};
  std::atomic<uint64_t> hits_store{0};
  std::atomic<uint64_t> hits_fleet{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> rejected{0};
  std::atomic<uint64_t> waited_too_long{0};
  std::atomic<uint64_t> kernels_compiled{0};
  std::atomic<uint64_t> kernels_reused{0};
  std::atomic<uint64_t> kernels_failed{0};
  std::atomic<uint64_t> repros_kept{0};
  std::atomic<uint64_t> worker_restarts{0};
  std::atomic<uint64_t> in_flight{0};  // requests that wait for a compile
  std::atomic<uint64_t> lookup_nanoseconds{0};
  std::atomic<uint64_t> saved_nanoseconds{0};  // that compiling took what was found
  std::atomic<uint64_t> worker_cpu_nanoseconds{0};
  std::atomic<uint64_t> frames_found{0};
  std::atomic<uint64_t> frames_not_found{0};
  std::atomic<uint64_t> frames_put{0};
  std::atomic<uint64_t> frames_refused{0};
  std::atomic<uint64_t> frame_hits{0};
  std::atomic<uint64_t> captures{0};
  std::atomic<uint64_t> captures_waited{0};
  std::atomic<uint64_t> captures_lapsed{0};
  std::atomic<uint64_t> calls_unauthenticated{0};
  std::array<Latency, kOutcomes.size()> latencies;
  std::array<std::atomic<uint64_t>, kMissReasons.size()> misses{};
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

  void AddStages(const google::protobuf::RepeatedPtrField<v1::StageTime>& stages);
  // Everything that is counted here, and this process's pid, age and resident size.
  void Fill(v1::Stats* stats) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, uint64_t> stages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_STATISTICS_METRICS_H_
