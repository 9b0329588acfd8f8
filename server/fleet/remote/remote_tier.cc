// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/remote/remote_tier.h"

#include <absl/base/thread_annotations.h>
#include <absl/strings/match.h>
#include <absl/strings/string_view.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <utility>

#include "server/fleet/remote/blobs.h"
#include "server/fleet/remote/leases.h"
#include "server/fleet/remote/results.h"

namespace tensord::fleet {
namespace {

constexpr absl::string_view kBlob = "blob/";
reapi::Digest BlobDigest(const std::string& name, uint64_t bytes) {
  reapi::Digest digest;
  digest.set_hash(name.substr(kBlob.size()));
  digest.set_size_bytes(static_cast<int64_t>(bytes));
  return digest;
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
  std::vector<std::pair<std::string, reapi::ActionResult>> results;
  for (const Object& object : objects) {
    if (absl::StartsWith(object.name, kBlob)) {
      blobs.push_back({BlobDigest(object.name, object.value.size()), object.value});
      continue;
    }
    const NamedAction& action = actions.emplace_back(object.name);
    blobs.push_back({DigestOf(action.command), action.command});
    blobs.push_back({action.digest, action.action});
    blobs.push_back({DigestOf(object.value), object.value});
    reapi::ActionResult& result = results.emplace_back(object.name, reapi::ActionResult()).second;
    *result.mutable_stdout_digest() = blobs.back().digest;
    for (const Wanted& need : object.needs) {
      reapi::OutputFile& file = *result.add_output_files();
      file.set_path(need.name);
      *file.mutable_digest() = BlobDigest(need.name, need.bytes);
    }
  }
  TENSORD_RETURN_IF_ERROR(WriteMissingBlobs(session, blobs, deadline));
  for (const auto& [name, result] : results) {
    TENSORD_RETURN_IF_ERROR(WriteResult(session, name, result, deadline));
  }
  return absl::OkStatus();
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
      return ClaimLease(session, name, value, lifetime, deadline);
    });
  }

  absl::Status Release(const std::string& name, const std::string& value,
                       absl::Time deadline) override {
    return With(deadline, [&](const RemoteSession& session) {
      return ReleaseLease(session, name, value, deadline);
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
