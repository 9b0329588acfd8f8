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
#define TENSORD_COUNTER(name) stats->set_##name(name);
  TENSORD_COUNTERS(TENSORD_COUNTER)
#undef TENSORD_COUNTER
  stats->set_hits(stats->hits_store() + stats->hits_fleet());
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
