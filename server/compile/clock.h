// SPDX-License-Identifier: Apache-2.0
// Durations as the service counts them.
#ifndef TENSORD_SERVER_COMPILE_CLOCK_H_
#define TENSORD_SERVER_COMPILE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace tensord::server {

inline uint64_t NanosecondsSince(std::chrono::steady_clock::time_point start) {
  const auto passed = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_CLOCK_H_
