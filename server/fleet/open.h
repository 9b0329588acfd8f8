// SPDX-License-Identifier: Apache-2.0
// A fleet as the configuration says it.
#ifndef TENSORD_SERVER_FLEET_OPEN_H_
#define TENSORD_SERVER_FLEET_OPEN_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "server/fleet/fleet.h"
#include "server/fleet/tier.h"

namespace tensord::fleet {

struct FleetConfig {
  // file:///folder, Redis's (redis_tier.h), or the Remote Execution API's (remote/session.h).
  std::string url;
  std::string sign_key;  // paths; empty: none
  std::string trust;
  std::string password_file;  // beats the URL's
  std::string ca;             // file of the authorities that count for TLS; empty: the system's
  absl::Duration expiry = absl::Hours(720);  // of what is put; 0: never; Redis alone has it
  FleetOptions options;
};

// InvalidArgument: the URL, and what would do.
absl::StatusOr<std::unique_ptr<Tier>> OpenTier(const FleetConfig& config);
// Reads the keys; asks the tier nothing. FailedPrecondition: a key's file.
absl::StatusOr<std::unique_ptr<Fleet>> OpenFleet(const FleetConfig& config);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_OPEN_H_
