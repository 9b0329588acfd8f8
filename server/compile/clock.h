// SPDX-License-Identifier: Apache-2.0
// Durations as the service counts them, by a clock that nobody sets.
#ifndef TENSORD_SERVER_COMPILE_CLOCK_H_
#define TENSORD_SERVER_COMPILE_CLOCK_H_

#include <absl/time/time.h>

#include <chrono>
#include <cstdint>

namespace tensord::server {

// To be compared with others of this process alone.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

inline uint64_t NanosecondsSince(std::chrono::steady_clock::time_point start) {
  const auto passed = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_CLOCK_H_
