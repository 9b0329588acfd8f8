// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/leases.h"

#include <absl/strings/escaping.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/fleet/remote/results.h"

namespace tensord::fleet {
namespace {

// Between writing a wish and reading it again lies twice what the calls so far have taken, for
// others may be as far behind; this at least, and never so much that the deadline comes near.
constexpr absl::Duration kLeastPause = absl::Milliseconds(10);
constexpr int kCallsLeft = 5;  // of a claim behind its first one
// How long a wish of a host that died holds others back, behind its deadline.
constexpr absl::Duration kWishLife = absl::Seconds(1);

std::string WishFor(const std::string& lease) { return lease + " wish"; }

// Whose lease it is; none: nobody's, or it has ended.
absl::StatusOr<std::optional<std::string>> Read(const RemoteSession& session,
                                                const std::string& name, absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(const auto result, ReadResult(session, name, deadline));
  if (!result.has_value()) return std::nullopt;
  const reapi::ExecutedActionMetadata& metadata = result->execution_metadata();
  const auto& end = metadata.execution_completed_timestamp();
  const absl::Time until = absl::FromUnixSeconds(end.seconds()) + absl::Nanoseconds(end.nanos());
  std::string value;
  if (until < absl::Now() || !absl::Base64Unescape(metadata.worker(), &value)) return std::nullopt;
  return value;
}

absl::Status Write(const RemoteSession& session, const std::string& name, const std::string& value,
                   absl::Time until, absl::Time deadline) {
  reapi::ActionResult result;
  reapi::ExecutedActionMetadata& metadata = *result.mutable_execution_metadata();
  metadata.set_worker(absl::Base64Escape(value));
  auto& end = *metadata.mutable_execution_completed_timestamp();
  const int64_t milliseconds = absl::ToUnixMillis(until);
  end.set_seconds(milliseconds / 1000);
  end.set_nanos(static_cast<int32_t>(milliseconds % 1000) * 1'000'000);
  return WriteResult(session, name, result, deadline);
}

}  // namespace

absl::StatusOr<std::string> ClaimLease(const RemoteSession& session, const std::string& name,
                                       const std::string& value, absl::Duration lifetime,
                                       absl::Time deadline) {
  TENSORD_RETURN_IF_ERROR(TakesResults(session));
  const std::string wish = WishFor(name);
  const absl::Time start = absl::Now(), end = start + lifetime;
  TENSORD_ASSIGN_OR_RETURN(auto other, Read(session, name, deadline));
  if (other.has_value()) return *std::move(other);
  const absl::Duration call = absl::Now() - start;
  if (absl::Now() + kCallsLeft * call + kLeastPause > deadline) return value;

  TENSORD_ASSIGN_OR_RETURN(other, Read(session, wish, deadline));
  if (other.has_value()) return *std::move(other);
  TENSORD_RETURN_IF_ERROR(
      Write(session, wish, value, std::min(end, deadline + kWishLife), deadline));
  const absl::Time now = absl::Now();
  absl::SleepFor(std::min(std::max(2 * (now - start), kLeastPause), (deadline - now) / 3));
  TENSORD_ASSIGN_OR_RETURN(other, Read(session, wish, deadline));
  if (other.has_value() && *other != value) return *std::move(other);
  // Who was slow to write its wish may have written over that of one who has the lease by now.
  TENSORD_ASSIGN_OR_RETURN(other, Read(session, name, deadline));
  if (other.has_value()) return *std::move(other);
  TENSORD_RETURN_IF_ERROR(Write(session, name, value, end, deadline));
  return value;
}

absl::Status ReleaseLease(const RemoteSession& session, const std::string& name,
                          const std::string& value, absl::Time deadline) {
  for (const std::string& one : {WishFor(name), name}) {
    TENSORD_ASSIGN_OR_RETURN(const auto held, Read(session, one, deadline));
    if (held != value) continue;
    // Nothing can be removed, but leases end.
    TENSORD_RETURN_IF_ERROR(Write(session, one, "", absl::UnixEpoch(), deadline));
  }
  return absl::OkStatus();
}

}  // namespace tensord::fleet
