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
inline constexpr int kMostRowOperators = 128;          // that are kept, as of lines
inline constexpr int kMostProfileOperators = 1 << 17;  // of all rows, as of lines
inline constexpr uint64_t kLongestTime = uint64_t{24} * 3600 * 1'000'000'000;  // nanoseconds
// What a run moves or computes, and bytes a second; how often something ran.
inline constexpr uint64_t kMostWork = uint64_t{1} << 62, kMostRuns = uint64_t{1} << 40;

// InvalidArgument: something is too much or too large, a number is of nothing that is there, an
// operator has no name, or there is not one time for each call.
absl::Status CheckProfile(const v1::Profile& profile);
// Cuts texts and lists that are longer than they may be, of places in sources the beginning, and
// takes control characters out.
void Shorten(v1::Profile* profile);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_PROFILES_CHECK_PROFILE_H_
