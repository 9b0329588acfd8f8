// SPDX-License-Identifier: Apache-2.0
// What the fleet is given, one after the other on a thread of its own.
#include <absl/cleanup/cleanup.h>
#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <limits>
#include <optional>
#include <utility>

#include "server/fleet/fleet.h"
#include "server/log/quoted.h"

namespace tensord::fleet {
namespace {

constexpr int kMostAdded = 64;
// Of the right to change what lies under a name, and how long one waits for it before one does
// without: at worst the other's addition is lost, and made again by whoever misses it.
constexpr absl::Duration kChangeLease = absl::Seconds(5);
constexpr absl::Duration kChangeWait = absl::Seconds(2);
// Nobody waits for what is put.
constexpr absl::Duration kPutTime = absl::Seconds(10);
constexpr absl::Duration kChangePause = absl::Milliseconds(40);

}  // namespace

bool Fleet::Enqueue(std::function<void()> task, size_t most) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || breaker_.IsOpen() || puts_ >= most) return false;
  ++puts_;
  putting_.Run([this, task = std::move(task)] {
    task();
    absl::MutexLock lock(&mutex_);
    --puts_;
  });
  return true;
}

void Fleet::Put(const Name& name, std::function<absl::StatusOr<Parcel>()> make) {
  if (!keys_->CanSign()) return;
  const bool queued = Enqueue(
      [this, name, make = std::move(make)] {
        const auto parcel = make();
        PutNow(name, parcel.ok() ? exchange_.PackParcel(name, *parcel)
                                 : absl::StatusOr<std::vector<Object>>(parcel.status()));
        ReleaseNow(name);
      },
      options_.most_puts);
  if (!queued) Drop(name);
}

void Fleet::Add(const Name& name, std::function<absl::StatusOr<Blob>()> make,
                const std::optional<Name>& lease) {
  if (!keys_->CanSign()) return;
  const bool queued = Enqueue(
      [this, name, make = std::move(make), lease] {
        const absl::Cleanup release = [&] {
          if (lease.has_value()) ReleaseNow(*lease);
        };
        const auto blob = make();
        if (!blob.ok()) return PutNow(name, blob.status());
        std::optional<std::string> token;
        for (const absl::Time until = absl::Now() + kChangeWait; absl::Now() < until;) {
          auto claimed = exchange_.Claim(name, kChangeLease, absl::Now() + options_.answer);
          if (!claimed.ok()) break;
          token = *std::move(claimed);
          if (token.has_value()) break;
          absl::SleepFor(kChangePause * Jitter());
        }
        PutNow(name, PackMore(name, *blob));
        if (!token.has_value()) return;
        exchange_.Release(name, *token, absl::Now() + options_.answer).IgnoreError();
      },
      options_.most_puts);
  if (!queued) Drop(lease);
}

void Fleet::Drop(const std::optional<Name>& lease) {
  ++dropped_;
  if (lease.has_value()) GiveUp(*lease);
}

absl::StatusOr<std::vector<Object>> Fleet::PackMore(const Name& name, const Blob& blob) {
  auto manifest = exchange_.GetManifest(name, absl::Now() + options_.answer);
  if (IsTrouble(manifest.status())) {
    CountTrouble(manifest.status());
    return manifest.status();
  }
  return exchange_.PackMore(name, manifest.ok() ? *std::move(manifest) : v1::FleetManifest(), blob,
                            kMostAdded);
}

void Fleet::PutNow(const Name& name, const absl::StatusOr<std::vector<Object>>& objects) {
  if (!objects.ok()) {
    ++dropped_;
    spdlog::debug("event=fleet_not_put name={} why=\"{}\"", name.Path(),
                  Quoted(objects.status().message()));
    return;
  }
  uint64_t bytes = 0;
  for (const Object& object : *objects) bytes += object.value.size();
  const absl::Status put = exchange_.Put(*objects, absl::Now() + kPutTime + TransferTime(bytes));
  if (put.ok()) {
    ++put_;
    breaker_.Succeeded();
    NoteRefusal("");
    spdlog::debug("event=fleet_put name={} bytes={}", name.Path(), bytes);
    return;
  }
  ++dropped_;
  spdlog::warn("event=fleet_not_put name={} why=\"{}\"", name.Path(), Quoted(put.message()));
  // A tier that takes nothing, for want of room or of rights, may still give.
  if (absl::IsFailedPrecondition(put)) {
    ++errors_;
    NoteRefusal(put.message());
  } else {
    CountTrouble(put);
  }
}

void Fleet::GiveUp(const Name& lease) {
  {
    absl::MutexLock lock(&mutex_);
    if (leases_.count(lease.Path()) == 0) return;
  }
  // There are no more of these than leases, so that they need no limit. Behind an open breaker
  // nobody can be told: the lease ends by itself.
  constexpr size_t kAny = std::numeric_limits<size_t>::max();
  if (Enqueue([this, lease] { ReleaseNow(lease); }, kAny)) return;
  absl::MutexLock lock(&mutex_);
  leases_.erase(lease.Path());
}

void Fleet::ReleaseNow(const Name& lease) {
  std::string token;
  {
    absl::MutexLock lock(&mutex_);
    const auto held = leases_.find(lease.Path());
    if (held == leases_.end()) return;
    token = std::move(held->second.token);
    leases_.erase(held);
  }
  exchange_.Release(lease, token, absl::Now() + options_.answer).IgnoreError();
}

void Fleet::Flush(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return puts_ == 0; };
  mutex_.AwaitWithDeadline(absl::Condition(&is_done), deadline);
}

}  // namespace tensord::fleet
