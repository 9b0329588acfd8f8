// SPDX-License-Identifier: Apache-2.0
#include "server/statistics/metrics.h"

#include <unistd.h>

#include <cstdio>

#include "base/version.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::server {
namespace {

constexpr size_t kMaxStages = 256;
constexpr char kOtherStages[] = "other";

uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

void Metrics::AddStages(const google::protobuf::RepeatedPtrField<v1::StageTime>& stages) {
  absl::MutexLock lock(&mutex_);
  for (const v1::StageTime& stage : stages) {
    // A worker says the names: one that is not ours must not fill the daemon's memory.
    const bool room = stages_.size() < kMaxStages || stages_.count(stage.stage()) != 0;
    stages_[room ? stage.stage() : kOtherStages] += stage.nanoseconds();
  }
}

void Metrics::Fill(v1::Stats* stats) const {
  stats->set_version(Version());
  stats->set_pid(static_cast<uint32_t>(getpid()));
  stats->set_uptime_seconds(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - started)
          .count()));
  stats->set_requests(requests);
  stats->set_compiled(compiled);
  stats->set_joined(joined);
  stats->set_hits_store(hits_store);
  stats->set_hits_fleet(hits_fleet);
  stats->set_hits(stats->hits_store() + stats->hits_fleet());
  stats->set_failed(failed);
  stats->set_rejected(rejected);
  stats->set_waited_too_long(waited_too_long);
  stats->set_kernels_compiled(kernels_compiled);
  stats->set_kernels_reused(kernels_reused);
  stats->set_kernels_failed(kernels_failed);
  stats->set_repros_kept(repros_kept);
  stats->set_worker_restarts(worker_restarts);
  stats->set_in_flight(in_flight);
  stats->set_lookup_nanoseconds(lookup_nanoseconds);
  stats->set_saved_nanoseconds(saved_nanoseconds);
  stats->set_worker_cpu_nanoseconds(worker_cpu_nanoseconds);
  stats->set_frames_found(frames_found);
  stats->set_frames_not_found(frames_not_found);
  stats->set_frames_put(frames_put);
  stats->set_frames_refused(frames_refused);
  stats->set_frame_hits(frame_hits);
  stats->set_captures(captures);
  stats->set_captures_waited(captures_waited);
  stats->set_captures_lapsed(captures_lapsed);
  stats->set_calls_unauthenticated(calls_unauthenticated);
  stats->set_resident_bytes(ResidentBytes());
  for (size_t i = 0; i < kOutcomes.size(); ++i) {
    v1::Latency* latency = stats->add_latencies();
    latency->set_outcome(kOutcomes[i]);
    latencies[i].Fill(latency);
  }
  for (size_t i = 0; i < kMissReasons.size(); ++i) {
    v1::MissCount* count = stats->add_misses();
    count->set_reason(kMissReasons[i]);
    count->set_count(misses[i]);
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [stage, nanoseconds] : stages_) {
    v1::StageTime* time = stats->add_stages();
    time->set_stage(stage);
    time->set_nanoseconds(nanoseconds);
  }
}

}  // namespace tensord::server
