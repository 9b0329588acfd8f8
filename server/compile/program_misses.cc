// SPDX-License-Identifier: Apache-2.0
#include "server/compile/program_misses.h"

#include <absl/strings/match.h>

#include <utility>

namespace tensord::server {

void ProgramMisses::Add(v1::ProgramMiss miss) {
  uint64_t count = 1;
  absl::MutexLock lock(&mutex_);
  if (const auto found = by_key_.find(miss.key()); found != by_key_.end()) {
    count += found->second->count();
    latest_.erase(found->second);
    by_key_.erase(found);
  }
  miss.set_count(count);
  latest_.push_front(std::move(miss));
  by_key_[latest_.front().key()] = latest_.begin();
  if (latest_.size() > most_) {
    by_key_.erase(latest_.back().key());
    latest_.pop_back();
  }
}

void ProgramMisses::List(const v1::ListMissesRequest& request, v1::ListMissesReply* reply) const {
  absl::MutexLock lock(&mutex_);
  for (const v1::ProgramMiss& miss : latest_) {
    if (request.limit() != 0 && reply->programs_size() == static_cast<int>(request.limit())) break;
    if (!request.job().empty() && miss.caller().job() != request.job()) continue;
    if (absl::StartsWith(miss.key(), request.key_prefix())) *reply->add_programs() = miss;
  }
}

}  // namespace tensord::server
