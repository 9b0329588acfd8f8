// SPDX-License-Identifier: Apache-2.0
// Leases in an action cache. The API has no way to write unless there is one. So a host writes a
// wish, and reads it again after a moment: of several who wrote, the last one goes on, and if there
// is no lease by then, writes it. Two have it when one's calls to read and write the lease take
// longer than the other's moment.
//
// Lease and wish are results without output, whose actions nobody needs and which are not stored:
// the worker is who has it, the time of completion its end.
#ifndef TENSORD_SERVER_FLEET_REMOTE_LEASES_H_
#define TENSORD_SERVER_FLEET_REMOTE_LEASES_H_

#include <absl/time/time.h>

#include <string>

#include "base/status.h"
#include "server/fleet/remote/session.h"

namespace tensord::fleet {

// As Tier's of these names. Where there is no time to agree with others, the caller gets it.
absl::StatusOr<std::string> ClaimLease(const RemoteSession& session, const std::string& name,
                                       const std::string& value, absl::Duration lifetime,
                                       absl::Time deadline);
absl::Status ReleaseLease(const RemoteSession& session, const std::string& name,
                          const std::string& value, absl::Time deadline);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REMOTE_LEASES_H_
