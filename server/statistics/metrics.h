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

// Each is the field of Stats of its name, and counts what its metric there says.
// clang-format off
#define TENSORD_COUNTERS(COUNTER) \
  COUNTER(requests) \
  COUNTER(compiled) \
  COUNTER(joined) \
  COUNTER(hits_store) \
  COUNTER(hits_fleet) \
  COUNTER(failed) \
  COUNTER(rejected) \
  COUNTER(waited_too_long) \
  COUNTER(kernels_compiled) \
  COUNTER(kernels_reused) \
  COUNTER(kernels_failed) \
  COUNTER(repros_kept) \
  COUNTER(worker_restarts) \
  COUNTER(in_flight) \
  COUNTER(lookup_nanoseconds) \
  COUNTER(saved_nanoseconds) \
  COUNTER(worker_cpu_nanoseconds) \
  COUNTER(frames_found) \
  COUNTER(frames_not_found) \
  COUNTER(frames_put) \
  COUNTER(frames_refused) \
  COUNTER(frame_hits) \
  COUNTER(captures) \
  COUNTER(captures_waited) \
  COUNTER(captures_lapsed) \
  COUNTER(calls_unauthenticated)
// clang-format on

struct Metrics {
#define TENSORD_COUNTER(name) std::atomic<uint64_t> name{0};
  TENSORD_COUNTERS(TENSORD_COUNTER)
#undef TENSORD_COUNTER
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
