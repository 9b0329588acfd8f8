// SPDX-License-Identifier: Apache-2.0
// What is believed of spans that another process says: who can reach the socket says what it likes,
// and people read it.
#ifndef TENSORD_SERVER_TRACES_CHECK_SPANS_H_
#define TENSORD_SERVER_TRACES_CHECK_SPANS_H_

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

inline constexpr size_t kMostPutBytes = 256 << 10;  // of a PutSpansRequest
inline constexpr int kMostPutPrograms = 64;
inline constexpr int kMostJobSpans = 128;  // for one request
inline constexpr size_t kLongestName = 64, kLongestTrack = 64, kLongestDetail = 256;
inline constexpr absl::Duration kOldestSpan = absl::Hours(24);

// Whether it lies before `now`, of the same clock.
bool HasEndedBy(const v1::Span& span, uint64_t now);
// Cuts texts that are longer than they may be.
void Shorten(v1::Span* span);

// InvalidArgument: something is too much, a span is not of the caller's process, has not ended by
// `now`, is older than a capture takes, or overlaps with another one of its track.
absl::Status CheckPut(const v1::PutSpansRequest& request, uint64_t now);

}  // namespace tensord::server

#endif  // TENSORD_SERVER_TRACES_CHECK_SPANS_H_
