// SPDX-License-Identifier: Apache-2.0
#include "server/ui/history.h"

#include <absl/time/clock.h>
#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace tensord::server {
namespace {

// What is drawn over time: what only grows, of which a reader takes differences, then what is now.
constexpr const char* kFields[] = {
    "requests",
    "hits",
    "compiled",
    "joined",
    "failed",
    "kernels_compiled",
    "kernels_reused",
    "frame_hits",
    "captures",
    "saved_nanoseconds",
    "worker_cpu_nanoseconds",
    "in_flight",
    "queued",
    "workers",
    "resident_bytes",
    "bytes_stored",
};

std::vector<uint64_t> ValuesOf(const v1::Stats& stats) {
  std::vector<uint64_t> values;
  for (const char* name : kFields) {
    const auto* field = v1::Stats::descriptor()->FindFieldByName(name);
    TENSORD_CHECK(field != nullptr);
    values.push_back(v1::Stats::GetReflection()->GetUInt64(stats, field));
  }
  return values;
}

}  // namespace

History::History(std::function<void(v1::Stats*)> read, absl::Duration interval, size_t most)
    : read_(std::move(read)), interval_(interval), most_(most), thread_([this] { Run(); }) {}

History::~History() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
}

void History::Read() {
  v1::Stats stats;
  read_(&stats);
  Sample sample{absl::ToUnixMillis(absl::Now()), ValuesOf(stats)};
  absl::MutexLock lock(&mutex_);
  samples_.push_back(std::move(sample));
  if (samples_.size() > most_) samples_.pop_front();
}

void History::Run() {
  while (true) {
    Read();
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopped_), interval_)) return;
  }
}

std::string History::ToJson(int64_t since_ms) const {
  nlohmann::json history = {{"fields", kFields}, {"times", nlohmann::json::array()}};
  std::vector<std::vector<uint64_t>> values(std::size(kFields));
  absl::MutexLock lock(&mutex_);
  for (const Sample& sample : samples_) {
    if (sample.time_ms <= since_ms) continue;
    history["times"].push_back(sample.time_ms);
    for (size_t i = 0; i < values.size(); ++i) values[i].push_back(sample.values[i]);
  }
  history["values"] = values;
  return history.dump();
}

}  // namespace tensord::server
