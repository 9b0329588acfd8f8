// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/fleet.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/log/quoted.h"
#include "tensord/v1/stats.pb.h"

namespace tensord::fleet {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(40);
constexpr absl::Duration kLongestPause = absl::Milliseconds(400);
constexpr int kMostHolders = 4;  // that are waited for

absl::Status Stopped() { return absl::UnavailableError("the daemon is stopping"); }

}  // namespace

struct Fleet::Search {
  Query query;
  // Of one thread at a time:
  absl::Time deadline;
  std::string holder;  // the token of the host that makes it, once there is one
  int holders = 0;     // so many, one after the other
  absl::Time since, lease_until = absl::InfinitePast();  // it is waited for
  absl::Duration pause = kFirstPause;
  bool refused = false;  // counted
  std::string broken;    // the manifest whose blobs could not be had
  // Under the fleet's mutex:
  std::vector<Done> waiting;
  uint64_t step = 0;
  bool begun = false;    // a thread asks the tier, which is to blame for what follows
  bool in_full = false;  // it has all the time that the fleet gives it, whatever the query says
  bool over = false;
};

Fleet::Fleet(FleetOptions options, std::unique_ptr<Tier> tier, std::unique_ptr<Keys> keys)
    : options_(options),
      tier_(std::move(tier)),
      keys_(std::move(keys)),
      exchange_(tier_.get(), keys_.get()),
      breaker_(options.breaker),
      random_(std::random_device()()),
      threads_(options.threads),
      fetching_(options.threads),
      putting_(1) {}

void Fleet::Find(Query query, Done done) {
  SearchPtr search;
  {
    absl::MutexLock lock(&mutex_);
    const std::string path = query.name.Path();
    if (!stopped_ && !breaker_.IsOpen()) {
      if (const auto found = searches_.find(path); found != searches_.end()) {
        found->second->waiting.push_back(std::move(done));
        return;
      }
      if (searches_.size() < options_.most_searches) {
        search = std::make_shared<Search>();
        search->query = std::move(query);
        search->waiting.push_back(std::move(done));
        searches_.emplace(path, search);
      }
    }
  }
  if (search == nullptr) {
    ++skipped_;
    return done(absl::UnavailableError("the fleet is not asked"));
  }
  const absl::Duration answer = std::min(search->query.answer, options_.answer);
  if (!Allow(search, absl::Now() + answer)) return;
  threads_.Run([this, search] { Seek(search); });
}

void Fleet::Seek(const SearchPtr& search) {
  if (!Begin(search, true)) return;
  const auto manifest = Look(search);
  if (IsTrouble(manifest.status())) {
    Finish(search, manifest.status(), /*trouble=*/true);
    return;
  }
  if (IsOver(search)) return;
  if (manifest.ok()) return Fetch(search, *manifest);
  Claim(search);
}

absl::StatusOr<v1::FleetManifest> Fleet::Look(const SearchPtr& search) {
  const Name& name = search->query.name;
  auto manifest = exchange_.GetManifest(name, search->deadline);
  if (absl::IsDataLoss(manifest.status()) && !std::exchange(search->refused, true)) {
    Refuse(name, manifest.status().message());
  }
  if (manifest.ok() && manifest->SerializeAsString() == search->broken) {
    return absl::NotFoundError("what it names is not there");
  }
  return manifest;
}

// What is not there is this host's to make, unless another one does already.
void Fleet::Claim(const SearchPtr& search) {
  const absl::Status not_there = absl::NotFoundError("it is not there");
  if (!search->query.lease.has_value() || options_.lease == absl::ZeroDuration() ||
      !keys_->CanSign()) {
    Finish(search, not_there);
    return;
  }
  const Name& lease = *search->query.lease;
  if (Holds(lease)) {  // of a process that has ended, say
    Finish(search, not_there);
    return;
  }
  const absl::Time until = absl::Now() + options_.lease;
  std::string holder;
  const auto token = exchange_.Claim(lease, options_.lease, search->deadline, &holder);
  if (absl::IsFailedPrecondition(token.status())) {
    // It answers, but lets this host write nothing: there is no lease, and no reason not to ask.
    ++errors_;
    NoteRefusal(token.status().message());
    Finish(search, not_there);
    return;
  }
  if (!token.ok()) {
    Finish(search, token.status(), /*trouble=*/true);
    return;
  }
  if (!token->has_value()) {
    if (search->holders == 0) {
      ++waited_;
      search->since = absl::Now();
    }
    // Another has taken over from one that died, or that took too long.
    if (holder != search->holder && search->holders < kMostHolders) {
      search->holder = holder;
      ++search->holders;
      search->lease_until =
          std::min(absl::Now() + options_.lease, search->since + search->query.wait);
    }
    if (absl::Now() < search->lease_until) return SeekLater(search);
    Finish(search, not_there);
    return;
  }
  NoteRefusal("");
  {
    absl::MutexLock lock(&mutex_);
    leases_[lease.Path()] = {**token, until};
  }
  // Who had the lease may have put it since we looked.
  const auto again = Look(search);
  if (again.ok()) {
    GiveUp(lease);
    return Fetch(search, *again);
  }
  if (IsTrouble(again.status())) {
    GiveUp(lease);
    Finish(search, again.status(), /*trouble=*/true);
    return;
  }
  if (!Finish(search, not_there)) GiveUp(lease);
}

void Fleet::SeekLater(const SearchPtr& search) {
  if (!Allow(search, absl::InfiniteFuture())) return;
  const absl::Time then = absl::Now() + search->pause * Jitter();
  search->pause = std::min(search->pause * 1.5, kLongestPause);
  threads_.RunAt(then, [this, search] {
    if (breaker_.IsOpen()) {
      Finish(search, absl::UnavailableError("the tier does not answer any more"));
    } else if (Begin(search, false) && Allow(search, absl::Now() + options_.answer)) {
      threads_.Run([this, search] { Seek(search); });
    }
  });
}

// Elsewhere, and without a limit until it is its turn: who fetches keeps nobody from asking.
void Fleet::Fetch(const SearchPtr& search, const v1::FleetManifest& manifest) {
  if (!Allow(search, absl::InfiniteFuture())) return;
  fetching_.Run([this, search, manifest] { FetchNow(search, manifest); });
}

void Fleet::FetchNow(const SearchPtr& search, const v1::FleetManifest& manifest) {
  if (breaker_.IsOpen()) {
    Finish(search, absl::UnavailableError("the tier does not answer any more"));
    return;
  }
  auto parcel = Carry(search, manifest);
  // From here on nobody waits for the tier.
  if (!IsTrouble(parcel.status()) && !Allow(search, absl::InfiniteFuture())) return;
  if (IsTrouble(parcel.status())) {
    Finish(search, parcel.status(), /*trouble=*/true);
    return;
  }
  absl::Status taken = parcel.status();
  if (parcel.ok()) {
    if (parcel->refused > 0) Refuse(search->query.name, "a blob is not what was signed");
    const Query& query = search->query;
    const auto take = [&] { return query.take(*std::move(parcel)); };
    taken = query.around ? query.around(take) : take();
  }
  if (absl::IsDataLoss(taken)) Refuse(search->query.name, taken.message());
  if (taken.ok() || (!absl::IsNotFound(taken) && !absl::IsDataLoss(taken))) {
    Finish(search, taken);
    return;
  }
  search->broken = manifest.SerializeAsString();
  if (!Begin(search, false) || !Allow(search, absl::Now() + options_.answer)) return;
  threads_.Run([this, search] {
    if (Begin(search, true)) Claim(search);
  });
}

absl::StatusOr<Parcel> Fleet::Carry(const SearchPtr& search, const v1::FleetManifest& manifest) {
  uint64_t bytes = manifest.content().stored_bytes();
  for (const v1::FleetBlob& blob : manifest.blobs()) bytes += blob.stored_bytes();
  const absl::Time deadline = absl::Now() + options_.answer + TransferTime(bytes);
  if (!Allow(search, deadline, /*in_full=*/true)) return Stopped();
  return exchange_.GetParcel(manifest, search->query.has, search->deadline);
}

bool Fleet::Begin(const SearchPtr& search, bool begun) {
  absl::MutexLock lock(&mutex_);
  search->begun = begun;
  return !search->over;
}

bool Fleet::Allow(const SearchPtr& search, absl::Time deadline, bool in_full) {
  uint64_t step;
  {
    absl::MutexLock lock(&mutex_);
    if (search->over) return false;
    search->in_full |= in_full;
    step = ++search->step;
  }
  search->deadline = deadline;
  if (deadline == absl::InfiniteFuture()) return true;
  threads_.RunAt(deadline, [this, search, step] { Expire(search, step); });
  return true;
}

void Fleet::Expire(const SearchPtr& search, uint64_t step) {
  bool begun;
  {
    absl::MutexLock lock(&mutex_);
    if (search->step != step) return;
    begun = search->begun;
  }
  // Nobody has asked the tier where all threads were busy, and it did nothing wrong.
  skipped_ += !begun;
  Finish(search, absl::DeadlineExceededError("it did not answer in time"), /*trouble=*/begun);
}

bool Fleet::Holds(const Name& lease) {
  absl::MutexLock lock(&mutex_);
  const auto held = leases_.find(lease.Path());
  return held != leases_.end() && absl::Now() < held->second.until;
}

bool Fleet::IsOver(const SearchPtr& search) {
  absl::MutexLock lock(&mutex_);
  return search->over;
}

bool Fleet::Finish(const SearchPtr& search, const absl::Status& status, bool trouble) {
  std::vector<Done> waiting;
  bool had_time;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(search->over, true)) return false;
    had_time = search->in_full || search->query.answer >= options_.answer;
    searches_.erase(search->query.name.Path());
    waiting.swap(search->waiting);
  }
  hits_ += status.ok();
  misses_ += absl::IsNotFound(status);
  if (trouble && had_time) {
    CountTrouble(status);
  } else if (status.ok() || absl::IsNotFound(status)) {
    breaker_.Succeeded();
  }
  for (const Done& done : waiting) done(status);
  return true;
}

void Fleet::Refuse(const Name& name, absl::string_view why) {
  ++refused_;
  spdlog::warn("event=fleet_refused name={} why=\"{}\"", name.Path(), Quoted(why));
}

void Fleet::CountTrouble(const absl::Status& status) {
  ++errors_;
  const auto pause = breaker_.Failed(std::string(status.message()));
  if (!pause.has_value()) return;
  spdlog::warn("event=fleet_breaker state=open tier=\"{}\" why=\"{}\"", tier_->Where(),
               Quoted(status.message()));
  ProbeIn(*pause);
}

void Fleet::NoteRefusal(absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  refusal_ = std::string(why);
}

void Fleet::ProbeIn(absl::Duration pause) {
  threads_.RunAt(absl::Now() + pause * Jitter(), [this] {
    uint64_t probe;
    {
      absl::MutexLock lock(&mutex_);
      probe = ++probe_;
    }
    const absl::Time deadline = absl::Now() + options_.answer;
    threads_.RunAt(deadline, [this, probe] {
      EndProbe(probe, absl::DeadlineExceededError("it does not answer in time"));
    });
    threads_.Run([this, probe, deadline] {
      // Nobody ever puts this: a server that gives something lies.
      const auto got = tier_->Get({{Name{"probe", std::string(32, '\0')}.Path()}}, deadline);
      const bool lies = got.ok() && (got->size() != 1 || got->front().has_value());
      EndProbe(probe, lies ? absl::UnavailableError("it gives what nobody put") : got.status());
    });
  });
}

void Fleet::EndProbe(uint64_t probe, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (probe_ != probe) return;
    ++probe_;
  }
  const auto pause = breaker_.Probed(std::string(status.message()));
  if (pause.has_value()) return ProbeIn(*pause);
  spdlog::info("event=fleet_breaker state=closed tier=\"{}\"", tier_->Where());
}

double Fleet::Jitter() {
  absl::MutexLock lock(&mutex_);
  return std::uniform_real_distribution<double>(0.5, 1.5)(random_);
}

void Fleet::FillStats(v1::Stats* stats) {
  stats->set_fleet(absl::StrCat(tier_->Where(), keys_->CanSign() ? "" : " (read-only)"));
  std::vector<std::string> problems;
  const auto add = [&](absl::string_view what, const std::string& why) {
    if (!why.empty()) problems.push_back(absl::StrCat(what, why));
  };
  add("", keys_->Problem());
  add(breaker_.IsOpen() ? "not asked: " : "the last time: ", breaker_.why());
  {
    absl::MutexLock lock(&mutex_);
    add("refused the last time: ", refusal_);
  }
  stats->set_fleet_problem(absl::StrJoin(problems, "; "));
  stats->set_fleet_hits(hits_);
  stats->set_fleet_misses(misses_);
  stats->set_fleet_errors(errors_);
  stats->set_fleet_skipped(skipped_);
  stats->set_fleet_refused(refused_);
  stats->set_fleet_put(put_);
  stats->set_fleet_dropped(dropped_);
  stats->set_fleet_waited(waited_);
  stats->set_fleet_breaker_open(breaker_.IsOpen());
  stats->set_fleet_breaker_opened(breaker_.opened());
  stats->set_fleet_bytes_in(exchange_.bytes_in());
  stats->set_fleet_bytes_out(exchange_.bytes_out());
}

void Fleet::Stop() {
  std::map<std::string, SearchPtr> searches;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    searches = searches_;
  }
  for (const auto& [path, search] : searches) Finish(search, Stopped());
  threads_.Stop();
  fetching_.Stop();
  putting_.Stop();
}

}  // namespace tensord::fleet
