// SPDX-License-Identifier: Apache-2.0
// Durations by a clock that nobody sets, and that stands while the machine sleeps.
#ifndef TENSORD_BASE_CLOCK_H_
#define TENSORD_BASE_CLOCK_H_

#include <absl/time/time.h>

#include <chrono>
#include <cstdint>

namespace tensord {

// To be compared with others of this process alone.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

inline uint64_t NanosecondsSince(std::chrono::steady_clock::time_point start) {
  const auto passed = std::chrono::steady_clock::now() - start;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

}  // namespace tensord

#endif  // TENSORD_BASE_CLOCK_H_
