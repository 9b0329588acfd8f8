// SPDX-License-Identifier: Apache-2.0
// One capture for all: of those who want frames of one code in one environment (a place, opaque
// here), one captures and the others wait.
//
// A capture is a lease: it ends when its number is given back, after a while, or with its process,
// and then another of those who wait may capture. Waiters are callbacks, so that waiting holds no
// thread. Every function may be called from several threads; callbacks are called without a lock.
#ifndef TENSORD_SERVER_FRAMES_CAPTURES_H_
#define TENSORD_SERVER_FRAMES_CAPTURES_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/frames/process_life.h"

namespace tensord::server {

template <class Waiter>
class Captures {
 public:
  // A capture lasts `lease` at most. At most `most` wait, and as many captures are under way.
  Captures(absl::Duration lease, size_t most) : lease_(lease), most_(most) {}

  struct Asked {
    uint64_t capture = 0;  // not 0: the asker is to capture
    bool waits = false;    // `waiter` is kept
  };
  // Neither: there is no room, no time, or a thread of the same process captures, which the asker
  // may well keep from going on.
  Asked Ask(const std::string& place, const ProcessLife& process, absl::Time until,
            const Waiter& waiter, absl::Time now = absl::Now()) {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return {};
    Place& at = places_[place];
    if (at.holder.capture == 0 || IsOver(at.holder, now)) {
      const bool has_room = at.holder.capture != 0 || captures_ < most_;
      if (has_room) return {Grant(at, place, process, now), false};
    } else if (until > now && waiting_ < most_ && !at.holder.process.Is(process)) {
      at.waiting.push_back({waiter, process, until});
      ++waiting_;
      return {0, true};
    }
    Forget(place);
    return {};
  }

  // The capture lasts for as long as a new one from here on; false: it has ended.
  bool Renew(uint64_t capture, absl::Time now = absl::Now()) {
    absl::MutexLock lock(&mutex_);
    const auto found = by_number_.find(capture);
    if (found == by_number_.end()) return false;
    places_[found->second].holder.until = now + lease_;
    return true;
  }
  // Ends a capture; its place, or nothing where it has ended before.
  std::optional<std::string> End(uint64_t capture) {
    absl::MutexLock lock(&mutex_);
    const auto found = by_number_.find(capture);
    if (found == by_number_.end()) return std::nullopt;
    const std::string place = found->second;
    Release(places_[place]);
    Forget(place);
    return place;
  }

  // Those who wait at a place, in order of coming.
  std::vector<Waiter> Waiting(const std::string& place) const {
    absl::MutexLock lock(&mutex_);
    std::vector<Waiter> all;
    if (const auto found = places_.find(place); found != places_.end()) {
      for (const OneWaiting& one : found->second.waiting) all.push_back(one.waiter);
    }
    return all;
  }
  // Takes a waiter off, for an answer; false: somebody else has.
  bool Take(const std::string& place, const Waiter& waiter) {
    absl::MutexLock lock(&mutex_);
    const auto found = places_.find(place);
    if (found == places_.end()) return false;
    std::list<OneWaiting>& waiting = found->second.waiting;
    for (auto one = waiting.begin(); one != waiting.end(); ++one) {
      if (one->waiter != waiter) continue;
      waiting.erase(one);
      --waiting_;
      Forget(place);
      return true;
    }
    return false;
  }
  struct Granted {
    Waiter waiter;
    uint64_t capture;
  };
  // Takes off the first waiter of a place where nobody captures, who is to capture.
  std::optional<Granted> Pass(const std::string& place, absl::Time now = absl::Now()) {
    absl::MutexLock lock(&mutex_);
    const auto found = places_.find(place);
    if (found == places_.end() || found->second.holder.capture != 0) return std::nullopt;
    Place& at = found->second;
    if (at.waiting.empty()) return std::nullopt;
    const OneWaiting first = std::move(at.waiting.front());
    at.waiting.pop_front();
    --waiting_;
    return Granted{first.waiter, Grant(at, place, first.process, now)};
  }

  struct Due {
    std::vector<Waiter> late;         // taken off: they have waited for as long as they wanted
    std::vector<std::string> places;  // whose capture was ended while others waited for it
    std::vector<std::string> left;    // whose capture was ended, and for which nobody waits
    uint64_t lapsed = 0;              // captures that were ended
  };
  Due TakeDue(absl::Time now = absl::Now()) {
    absl::MutexLock lock(&mutex_);
    Due due;
    for (auto next = places_.begin(); next != places_.end();) {
      const auto here = next++;
      Place& at = here->second;
      for (auto one = at.waiting.begin(); one != at.waiting.end();) {
        const auto waiting = one++;
        if (waiting->until > now) continue;
        due.late.push_back(std::move(waiting->waiter));
        at.waiting.erase(waiting);
        --waiting_;
      }
      if (at.holder.capture != 0 && IsOver(at.holder, now)) {
        Release(at);
        ++due.lapsed;
        (at.waiting.empty() ? due.left : due.places).push_back(here->first);
      }
      if (at.holder.capture == 0 && at.waiting.empty()) places_.erase(here);
    }
    return due;
  }
  // The same, once there is something to do or maybe so; nothing after Stop().
  std::optional<Due> AwaitDue() {
    // How soon a capture whose process was killed is passed on.
    constexpr absl::Duration kLook = absl::Milliseconds(50);
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Captures::IsBusyOrStopped));
      const absl::Time next = std::min(absl::Now() + kLook, Next());
      if (mutex_.AwaitWithDeadline(absl::Condition(&stopped_), next)) return std::nullopt;
    }
    return TakeDue();
  }
  // Nobody captures or waits from here on. Gives those who waited.
  std::vector<Waiter> Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    std::vector<Waiter> all;
    for (auto& [place, at] : places_) {
      for (OneWaiting& one : at.waiting) all.push_back(std::move(one.waiter));
    }
    places_.clear();
    by_number_.clear();
    waiting_ = captures_ = 0;
    return all;
  }

 private:
  struct Holder {
    uint64_t capture = 0;  // 0: none
    ProcessLife process;
    absl::Time until;
  };
  struct OneWaiting {
    Waiter waiter;
    ProcessLife process;
    absl::Time until;
  };
  struct Place {
    Holder holder;
    std::list<OneWaiting> waiting;
  };

  static bool IsOver(const Holder& holder, absl::Time now) {
    return holder.until <= now || !holder.process.MayLive();
  }
  uint64_t Grant(Place& at, const std::string& place, const ProcessLife& process, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Release(at);
    at.holder = {next_++, process, now + lease_};
    by_number_[at.holder.capture] = place;
    ++captures_;
    return at.holder.capture;
  }
  void Release(Place& at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (at.holder.capture == 0) return;
    by_number_.erase(at.holder.capture);
    at.holder = {};
    --captures_;
  }
  void Forget(const std::string& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = places_.find(place);
    if (found == places_.end()) return;
    if (found->second.holder.capture == 0 && found->second.waiting.empty()) places_.erase(found);
  }
  absl::Time Next() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    absl::Time next = absl::InfiniteFuture();
    for (const auto& [place, at] : places_) {
      if (at.holder.capture != 0) next = std::min(next, at.holder.until);
      for (const OneWaiting& one : at.waiting) next = std::min(next, one.until);
    }
    return next;
  }
  bool IsBusyOrStopped() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !places_.empty();
  }

  const absl::Duration lease_;
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, Place> places_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::string> by_number_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t captures_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_FRAMES_CAPTURES_H_
