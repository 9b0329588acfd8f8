// SPDX-License-Identifier: Apache-2.0
#include "server/frames/misses.h"

#include <absl/strings/match.h>

namespace tensord::server {
namespace {

constexpr size_t kMostTextBytes = 500;

}  // namespace

std::string Shortened(std::string text, size_t most) {
  if (text.size() <= most) return text;
  // Not within a character of several bytes, of which others begin with the bits 10.
  while (most > 0 && (static_cast<uint8_t>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
  return text;
}

void Misses::Add(const v1::FrameMiss& miss, int64_t now_unix) {
  const std::string guard = Shortened(miss.guard(), kMostTextBytes);
  absl::MutexLock lock(&mutex_);
  const auto [place, is_new] = by_guard_.try_emplace({miss.key(), guard});
  if (is_new) {
    latest_.emplace_front();
    latest_.front().set_key(miss.key());
    latest_.front().set_guard(guard);
    place->second = latest_.begin();
  } else {
    latest_.splice(latest_.begin(), latest_, place->second);
  }
  v1::FrameMiss& kept = latest_.front();
  kept.set_found(Shortened(miss.found(), kMostTextBytes));
  kept.set_count(kept.count() + miss.count());
  kept.set_last_unix(now_unix);
  *kept.mutable_caller() = miss.caller();
  if (latest_.size() > most_) {
    by_guard_.erase({latest_.back().key(), latest_.back().guard()});
    latest_.pop_back();
  }
}

std::vector<v1::FrameMiss> Misses::List(const std::string& key_prefix, size_t limit,
                                        const std::string& job) const {
  std::vector<v1::FrameMiss> found;
  absl::MutexLock lock(&mutex_);
  for (const v1::FrameMiss& miss : latest_) {
    if (limit != 0 && found.size() == limit) break;
    if (!job.empty() && miss.caller().job() != job) continue;
    if (absl::StartsWith(miss.key(), key_prefix)) found.push_back(miss);
  }
  return found;
}

}  // namespace tensord::server
