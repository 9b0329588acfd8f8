// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/results.h"

#include "server/fleet/remote/blobs.h"

namespace tensord::fleet {
NamedAction::NamedAction(const std::string& name) {
  reapi::Command what;
  what.add_arguments("tensord");
  what.add_arguments(name);
  command = what.SerializeAsString();
  reapi::Action made;
  *made.mutable_command_digest() = DigestOf(command);
  *made.mutable_input_root_digest() = DigestOf("");
  action = made.SerializeAsString();
  digest = DigestOf(action);
}

absl::StatusOr<std::optional<reapi::ActionResult>> ReadResult(const RemoteSession& session,
                                                              const std::string& name,
                                                              absl::Time deadline) {
  reapi::GetActionResultRequest request;
  request.set_instance_name(session.instance());
  *request.mutable_action_digest() = NamedAction(name).digest;
  request.set_inline_stdout(true);
  reapi::ActionResult reply;
  const grpc::Status status =
      session.results().GetActionResult(session.Context(deadline).get(), request, &reply);
  if (status.error_code() == grpc::NOT_FOUND) return std::nullopt;
  TENSORD_RETURN_IF_ERROR(TierStatus(status));
  return reply;
}

absl::Status WriteResult(const RemoteSession& session, const std::string& name,
                         const reapi::ActionResult& result, absl::Time deadline) {
  reapi::UpdateActionResultRequest request;
  request.set_instance_name(session.instance());
  *request.mutable_action_digest() = NamedAction(name).digest;
  *request.mutable_action_result() = result;
  reapi::ActionResult taken;
  return TierStatus(
      session.results().UpdateActionResult(session.Context(deadline).get(), request, &taken));
}

absl::Status TakesResults(const RemoteSession& session) {
  if (session.takes_results()) return absl::OkStatus();
  return absl::FailedPreconditionError("the server lets nobody change its action cache");
}

}  // namespace tensord::fleet
