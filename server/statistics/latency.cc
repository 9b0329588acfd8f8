// SPDX-License-Identifier: Apache-2.0
#include "server/statistics/latency.h"

#include <algorithm>

#include "tensord/v1/stats.pb.h"

namespace tensord::server {

void Latency::Add(uint64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) / 1e9;
  const auto bucket = std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), seconds);
  ++counts_[static_cast<size_t>(bucket - kLatencyBounds.begin())];
  nanoseconds_ += nanoseconds;
}

void Latency::Fill(v1::Latency* latency) const {
  latency->mutable_bounds_seconds()->Assign(kLatencyBounds.begin(), kLatencyBounds.end());
  for (const std::atomic<uint64_t>& count : counts_) latency->add_counts(count);
  latency->set_nanoseconds(nanoseconds_);
}

}  // namespace tensord::server
