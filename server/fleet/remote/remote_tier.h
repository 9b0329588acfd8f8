// SPDX-License-Identifier: Apache-2.0
// A cache of the Remote Execution API v2 as a tier: bazel-remote, BuildGrid, Buildbarn and others.
//
//   blob/<hex>      a blob of its content-addressed storage, with that digest
//   <kind>/<hex>    the result of an action that is made of the name and never runs: its standard
//                   output is the value, its output files are what the value needs
//
// Blobs are stored as they come, compressed already, so that the server's compressors have nothing
// to do. Results are replaced; a server that takes each only once is of no use.
//
// Leases are kept as well as the API lets one (leases.h).
#ifndef TENSORD_SERVER_FLEET_REMOTE_REMOTE_TIER_H_
#define TENSORD_SERVER_FLEET_REMOTE_REMOTE_TIER_H_

#include <memory>

#include "server/fleet/remote/session.h"
#include "server/fleet/tier.h"

namespace tensord::fleet {

// Connects when it is first asked, and again behind whatever went wrong.
std::unique_ptr<Tier> MakeRemoteTier(RemoteOptions options);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REMOTE_REMOTE_TIER_H_
