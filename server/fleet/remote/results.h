// SPDX-License-Identifier: Apache-2.0
// The action cache of a server: results by name, of actions that are made of the name and never
// run.
#ifndef TENSORD_SERVER_FLEET_REMOTE_RESULTS_H_
#define TENSORD_SERVER_FLEET_REMOTE_RESULTS_H_

#include <absl/time/time.h>

#include <optional>
#include <string>

#include "base/status.h"
#include "server/fleet/remote/session.h"

namespace tensord::fleet {

// What the server knows a name by, and the blobs that this is made of, which say to people what it
// is.
struct NamedAction {
  explicit NamedAction(const std::string& name);

  std::string command, action;
  reapi::Digest digest;  // of `action`
};

// What the server has, with the standard output if the server will.
absl::StatusOr<std::optional<reapi::ActionResult>> ReadResult(const RemoteSession& session,
                                                              const std::string& name,
                                                              absl::Time deadline);

// Over what is there.
absl::Status WriteResult(const RemoteSession& session, const std::string& name,
                         const reapi::ActionResult& result, absl::Time deadline);

// FailedPrecondition: the server takes no results.
absl::Status TakesResults(const RemoteSession& session);

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_REMOTE_RESULTS_H_
