// SPDX-License-Identifier: Apache-2.0
// What a request looks like before it is compiled: one worker is kept for those that look cheap.
#ifndef TENSORD_SERVER_POOL_COST_H_
#define TENSORD_SERVER_POOL_COST_H_

#include <algorithm>
#include <cstddef>

namespace tensord::server {

enum class Cost { kCheap, kExpensive };

// Cold compiles of 216 graphs captured from models and tests, on one worker of two cores: of those
// with fewer nodes nine in ten took less than 1 s and none more than 2.1 s (18 kernels at most); of
// those with as many or more half took more than 1.0 s, one in ten more than 3.0 s, the longest
// 10 s (162 kernels).
inline constexpr int kExpensiveNodes = 256;
// Graphs of that many nodes have some 30 kB. With fewer nodes a graph as large as this is unusual,
// and so may its compile be.
inline constexpr size_t kExpensiveBytes = 256 << 10;

inline Cost CostOf(int nodes, size_t bytes) {
  return nodes >= kExpensiveNodes || bytes >= kExpensiveBytes ? Cost::kExpensive : Cost::kCheap;
}

// How many of `workers` those of a cost may have at once.
inline int PlacesFor(Cost cost, int workers) {
  return cost == Cost::kExpensive ? std::max(1, workers - 1) : workers;
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_POOL_COST_H_
