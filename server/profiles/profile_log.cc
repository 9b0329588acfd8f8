// SPDX-License-Identifier: Apache-2.0
#include "server/profiles/profile_log.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "server/profiles/check_profile.h"
#include "server/traces/callers.h"

namespace tensord::server {
namespace {

constexpr size_t kShareOfOne = 4;  // one profile takes no more than this part of all

bool AsksForOne(const v1::GetProfilesRequest& request) {
  return request.id() != 0 || !request.key_prefix().empty() || !request.job().empty() ||
         request.pid() != 0;
}

// Whether a profile is among those that are asked for; adds its programs that begin as they should
// to `keys`.
bool Matches(const v1::StoredProfile& stored, const v1::GetProfilesRequest& request,
             std::set<std::string>* keys) {
  if (request.id() != 0 && stored.id() != request.id()) return false;
  if (!request.job().empty() && stored.caller().job() != request.job()) return false;
  if (request.pid() != 0 && stored.caller().pid() != request.pid()) return false;
  if (request.key_prefix().empty()) return true;
  bool found = false;
  for (const v1::ProfiledProgram& program : stored.profile().programs()) {
    if (!absl::StartsWith(program.key(), request.key_prefix())) continue;
    keys->insert(program.key());
    found = true;
  }
  return found;
}

}  // namespace

absl::StatusOr<uint64_t> ProfileLog::Put(v1::PutProfileRequest request) {
  TENSORD_RETURN_IF_ERROR(CheckProfile(request.profile()));
  auto stored = std::make_shared<v1::StoredProfile>();
  *stored->mutable_caller() = KeptCaller(std::move(*request.mutable_caller()));
  *stored->mutable_profile() = std::move(*request.mutable_profile());
  stored->mutable_profile()->DiscardUnknownFields();
  Shorten(stored->mutable_profile());
  stored->set_put_unix(absl::ToUnixSeconds(absl::Now()));
  // One that filled the log would send off those of everybody else.
  const size_t most = most_bytes_ / kShareOfOne, bytes = stored->SpaceUsedLong();
  if (bytes > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a profile that takes ", bytes, " bytes; at most ", most, " are kept of one"));
  }
  absl::MutexLock lock(&mutex_);
  const uint64_t id = ++last_id_;
  stored->set_id(id);
  bytes_ += stored->SpaceUsedLong();
  profiles_.push_back(std::move(stored));
  Trim();
  return id;
}

void ProfileLog::Drop(std::deque<Stored>::iterator place) {
  bytes_ -= (*place)->SpaceUsedLong();
  profiles_.erase(place);
}

// Requires: one was put at the end.
void ProfileLog::Trim() {
  const v1::Caller caller = profiles_.back()->caller();
  const auto is_its = [&](const Stored& one) { return IsSameProcess(one->caller(), caller); };
  if (std::count_if(profiles_.begin(), profiles_.end(), is_its) >
      static_cast<std::ptrdiff_t>(per_process_)) {
    Drop(std::find_if(profiles_.begin(), profiles_.end(), is_its));
  }
  while (bytes_ > most_bytes_) Drop(profiles_.begin());
}

std::vector<ProfileLog::Stored> ProfileLog::All() const {
  absl::MutexLock lock(&mutex_);
  return {profiles_.rbegin(), profiles_.rend()};
}

absl::Status ProfileLog::Get(const v1::GetProfilesRequest& request, v1::Profiles* reply) const {
  // Those who put one wait for the lock, and what is filled in may be megabytes.
  std::vector<Stored> found;
  std::set<std::string> keys;
  for (Stored& stored : All()) {
    if (Matches(*stored, request, &keys)) found.push_back(std::move(stored));
  }
  if (keys.size() > 1) {
    return absl::FailedPreconditionError("several programs begin with these digits; give more");
  }
  if (found.empty() && AsksForOne(request)) {
    return absl::NotFoundError(
        "no such profile has come since the daemon's start, or it is too old");
  }
  if (request.limit() > 0 && found.size() > request.limit()) found.resize(request.limit());
  for (const Stored& stored : found) {
    v1::StoredProfile& filled = *reply->add_profiles();
    if (!request.without_rows()) {
      filled = *stored;
      continue;
    }
    filled.set_id(stored->id());
    filled.set_put_unix(stored->put_unix());
    *filled.mutable_caller() = stored->caller();
    v1::Profile& about = *filled.mutable_profile();
    const v1::Profile& whole = stored->profile();
    about.set_function(whole.function());
    about.set_device(whole.device());
    about.set_on_gpu(whole.on_gpu());
    about.set_copy_rate(whole.copy_rate());
    *about.mutable_calls() = whole.calls();
    *about.mutable_gaps() = whole.gaps();
    *about.mutable_programs() = whole.programs();
  }
  return absl::OkStatus();
}

size_t ProfileLog::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace tensord::server
