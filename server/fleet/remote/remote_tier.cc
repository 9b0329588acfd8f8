// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/remote_tier.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/escaping.h>
#include <absl/strings/match.h>
#include <absl/strings/string_view.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <utility>

#include "server/fleet/remote/blobs.h"

namespace tensord::fleet {
namespace {

constexpr absl::string_view kBlob = "blob/";
// Between writing a lease and reading it again lies twice what the calls so far have taken, for
// others may be as far behind; this at least, and never so much that the deadline comes near.
constexpr absl::Duration kLeastPause = absl::Milliseconds(10);

reapi::Digest BlobDigest(const std::string& name, uint64_t bytes) {
  reapi::Digest digest;
  digest.set_hash(name.substr(kBlob.size()));
  digest.set_size_bytes(static_cast<int64_t>(bytes));
  return digest;
}

// What the server knows a name by, and the blobs that it is made of, which say to people what it
// is.
struct NamedAction {
  explicit NamedAction(const std::string& name) {
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
  // They point into this.
  void AddBlobs(std::vector<RemoteBlob>* blobs) const {
    blobs->push_back({DigestOf(command), command});
    blobs->push_back({digest, action});
  }
  std::string command, action;
  reapi::Digest digest;
};

// What the server has as the result of a name's action, if anything.
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

absl::Status WriteResult(const RemoteSession& session, const reapi::Digest& action,
                         const reapi::ActionResult& result, absl::Time deadline) {
  reapi::UpdateActionResultRequest request;
  request.set_instance_name(session.instance());
  *request.mutable_action_digest() = action;
  *request.mutable_action_result() = result;
  reapi::ActionResult taken;
  return TierStatus(
      session.results().UpdateActionResult(session.Context(deadline).get(), request, &taken));
}

absl::Status TakesResults(const RemoteSession& session) {
  if (session.takes_results()) return absl::OkStatus();
  return absl::FailedPreconditionError("the server lets nobody change its action cache");
}

// None: there is none, or one that is larger than any of ours.
absl::StatusOr<std::optional<std::string>> ReadValue(const RemoteSession& session,
                                                     const Wanted& wanted, absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(auto result, ReadResult(session, wanted.name, deadline));
  if (!result.has_value()) return std::nullopt;
  const reapi::Digest& digest = result->stdout_digest();
  if (!result->stdout_raw().empty() || digest.size_bytes() == 0) {
    return std::move(*result->mutable_stdout_raw());
  }
  const uint64_t most = wanted.bytes != 0 ? wanted.bytes : kMostUnknownBytes;
  if (static_cast<uint64_t>(digest.size_bytes()) > most) return std::nullopt;
  TENSORD_ASSIGN_OR_RETURN(auto blobs, ReadBlobs(session, {digest}, deadline));
  if (blobs.empty()) return std::nullopt;
  return std::move(blobs.begin()->second);
}

// Blobs first, then results in their order.
absl::Status WriteObjects(const RemoteSession& session, const std::vector<Object>& objects,
                          absl::Time deadline) {
  TENSORD_RETURN_IF_ERROR(TakesResults(session));
  std::vector<RemoteBlob> blobs;
  std::vector<NamedAction> actions;
  actions.reserve(objects.size());  // `blobs` point into them
  std::vector<reapi::ActionResult> results;
  for (const Object& object : objects) {
    if (absl::StartsWith(object.name, kBlob)) {
      blobs.push_back({BlobDigest(object.name, object.value.size()), object.value});
      continue;
    }
    const NamedAction& action = actions.emplace_back(object.name);
    action.AddBlobs(&blobs);
    blobs.push_back({DigestOf(object.value), object.value});
    reapi::ActionResult& result = results.emplace_back();
    *result.mutable_stdout_digest() = blobs.back().digest;
    for (const Wanted& need : object.needs) {
      reapi::OutputFile& file = *result.add_output_files();
      file.set_path(need.name);
      *file.mutable_digest() = BlobDigest(need.name, need.bytes);
    }
  }
  TENSORD_RETURN_IF_ERROR(WriteMissingBlobs(session, blobs, deadline));
  for (size_t i = 0; i < actions.size(); ++i) {
    TENSORD_RETURN_IF_ERROR(WriteResult(session, actions[i].digest, results[i], deadline));
  }
  return absl::OkStatus();
}

// The lease that somebody has; none: nobody.
absl::StatusOr<std::optional<std::string>> ReadLease(const RemoteSession& session,
                                                     const std::string& name, absl::Time deadline) {
  TENSORD_ASSIGN_OR_RETURN(const auto result, ReadResult(session, name, deadline));
  if (!result.has_value()) return std::nullopt;
  const reapi::ExecutedActionMetadata& metadata = result->execution_metadata();
  const absl::Time until =
      absl::FromUnixMillis(metadata.execution_completed_timestamp().seconds() * 1000 +
                           metadata.execution_completed_timestamp().nanos() / 1'000'000);
  std::string value;
  if (until < absl::Now() || !absl::Base64Unescape(metadata.worker(), &value)) return std::nullopt;
  return value;
}

absl::Status WriteLease(const RemoteSession& session, const std::string& name,
                        const std::string& value, absl::Time until, absl::Time deadline) {
  TENSORD_RETURN_IF_ERROR(TakesResults(session));
  const NamedAction action(name);
  std::vector<RemoteBlob> blobs;
  action.AddBlobs(&blobs);
  TENSORD_RETURN_IF_ERROR(WriteBlobs(session, blobs, deadline));
  reapi::ActionResult result;
  reapi::ExecutedActionMetadata& metadata = *result.mutable_execution_metadata();
  metadata.set_worker(absl::Base64Escape(value));
  auto& end = *metadata.mutable_execution_completed_timestamp();
  const int64_t milliseconds = absl::ToUnixMillis(until);
  end.set_seconds(milliseconds / 1000);
  end.set_nanos(static_cast<int32_t>(milliseconds % 1000) * 1'000'000);
  return WriteResult(session, action.digest, result, deadline);
}

class RemoteTier : public Tier {
 public:
  explicit RemoteTier(RemoteOptions options) : options_(std::move(options)) {}

  std::string Where() const override { return options_.ToString(); }

  absl::StatusOr<std::vector<std::optional<std::string>>> Get(const std::vector<Wanted>& wanted,
                                                              absl::Time deadline) override {
    return With(deadline,
                [&](const RemoteSession& session) { return GetNow(session, wanted, deadline); });
  }

  absl::Status Put(const std::vector<Object>& objects, absl::Time deadline) override {
    return With(deadline, [&](const RemoteSession& session) {
      return WriteObjects(session, objects, deadline);
    });
  }

  absl::StatusOr<std::string> Claim(const std::string& name, const std::string& value,
                                    absl::Duration lifetime, absl::Time deadline) override {
    return With(deadline, [&](const RemoteSession& session) {
      return ClaimNow(session, name, value, lifetime, deadline);
    });
  }

  absl::Status Release(const std::string& name, const std::string& value,
                       absl::Time deadline) override {
    return With(deadline, [&](const RemoteSession& session) -> absl::Status {
      TENSORD_ASSIGN_OR_RETURN(const auto held, ReadLease(session, name, deadline));
      if (held != value) return absl::OkStatus();
      // Nothing can be removed, but leases end.
      return WriteLease(session, name, "", absl::UnixEpoch(), deadline);
    });
  }

 private:
  static absl::StatusOr<std::vector<std::optional<std::string>>> GetNow(
      const RemoteSession& session, const std::vector<Wanted>& wanted, absl::Time deadline) {
    std::vector<reapi::Digest> digests;
    for (const Wanted& one : wanted) {
      if (absl::StartsWith(one.name, kBlob)) digests.push_back(BlobDigest(one.name, one.bytes));
    }
    TENSORD_ASSIGN_OR_RETURN(const auto blobs, ReadBlobs(session, digests, deadline));
    std::vector<std::optional<std::string>> all;
    for (const Wanted& one : wanted) {
      if (absl::StartsWith(one.name, kBlob)) {
        const auto found = blobs.find(one.name.substr(kBlob.size()));
        all.push_back(found == blobs.end() ? std::nullopt : std::optional(found->second));
        continue;
      }
      TENSORD_ASSIGN_OR_RETURN(auto value, ReadValue(session, one, deadline));
      all.push_back(std::move(value));
    }
    return all;
  }

  static absl::StatusOr<std::string> ClaimNow(const RemoteSession& session, const std::string& name,
                                              const std::string& value, absl::Duration lifetime,
                                              absl::Time deadline) {
    const absl::Time start = absl::Now();
    TENSORD_ASSIGN_OR_RETURN(auto held, ReadLease(session, name, deadline));
    if (held.has_value()) return *std::move(held);
    TENSORD_RETURN_IF_ERROR(WriteLease(session, name, value, start + lifetime, deadline));
    const absl::Time now = absl::Now();
    absl::SleepFor(std::min(std::max(2 * (now - start), kLeastPause), (deadline - now) / 3));
    TENSORD_ASSIGN_OR_RETURN(held, ReadLease(session, name, deadline));
    return held.has_value() ? *std::move(held) : value;
  }

  // What `ask` makes of a session. One by which something failed is not used again: the next one
  // has a connection and a password of its own.
  template <typename Ask>
  auto With(absl::Time deadline, Ask ask) -> decltype(ask(std::declval<RemoteSession&>())) {
    TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<RemoteSession> session, Connect(deadline));
    auto answer = ask(*session);
    if (!answer.ok()) {
      absl::MutexLock lock(&mutex_);
      if (session_ == session) session_ = nullptr;
    }
    return answer;
  }

  absl::StatusOr<std::shared_ptr<RemoteSession>> Connect(absl::Time deadline) {
    {
      absl::MutexLock lock(&mutex_);
      if (session_ != nullptr) return session_;
    }
    TENSORD_ASSIGN_OR_RETURN(auto opened, RemoteSession::Open(options_, deadline));
    absl::MutexLock lock(&mutex_);
    if (session_ == nullptr) session_ = std::move(opened);
    return session_;
  }

  const RemoteOptions options_;
  absl::Mutex mutex_;
  std::shared_ptr<RemoteSession> session_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Tier> MakeRemoteTier(RemoteOptions options) {
  return std::make_unique<RemoteTier>(std::move(options));
}

}  // namespace tensord::fleet
