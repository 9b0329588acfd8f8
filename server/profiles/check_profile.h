// SPDX-License-Identifier: Apache-2.0
// What is believed of a profile that a job says: who can reach the socket says what it likes, and
// people read it.
#ifndef TENSORD_SERVER_PROFILES_CHECK_PROFILE_H_
#define TENSORD_SERVER_PROFILES_CHECK_PROFILE_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "tensord/v1/profile.pb.h"

namespace tensord::server {

inline constexpr size_t kMostProfileBytes = 4 << 20;  // of a PutProfileRequest
inline constexpr int kMostProfiledCalls = 1000;
inline constexpr int kMostProfiledPrograms = 4096;
inline constexpr int kMostProfileRows = 20000;
inline constexpr int kMostRowOperators = 128;
inline constexpr uint64_t kLongestTime = uint64_t{24} * 3600 * 1'000'000'000;  // nanoseconds

// InvalidArgument: something is too much, a number is of nothing that is there, or there is not one
// time for each call.
absl::Status CheckProfile(const v1::Profile& profile);
// Cuts texts that are longer than they may be.
void Shorten(v1::Profile* profile);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROFILES_CHECK_PROFILE_H_
