// SPDX-License-Identifier: Apache-2.0
// How long something took, each time: counts by bounds that are fixed, so that those of many
// daemons can be added up.
#ifndef TENSORD_SERVER_STATISTICS_LATENCY_H_
#define TENSORD_SERVER_STATISTICS_LATENCY_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace tensord::v1 {
class Latency;
}

namespace tensord::server {

// Upper bounds of the buckets, in seconds: from a look-up to the longest compile that is allowed.
inline constexpr std::array kLatencyBounds = {50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3,
                                              10e-3, 25e-3,  50e-3,  0.1,    0.25, 0.5,    1.0,
                                              2.5,   5.0,    10.0,   30.0,   60.0, 300.0};

// Thread-safe. A reader may see a count before its time.
class Latency {
 public:
  void Add(uint64_t nanoseconds);
  // All but its outcome.
  void Fill(v1::Latency* latency) const;

 private:
  std::array<std::atomic<uint64_t>, kLatencyBounds.size() + 1> counts_{};
  std::atomic<uint64_t> nanoseconds_{0};
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_STATISTICS_LATENCY_H_
