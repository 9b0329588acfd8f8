// SPDX-License-Identifier: Apache-2.0
// Single flight: of several who want the same thing, one makes it and the others wait.
#ifndef TENSORD_SERVER_COMPILE_FLIGHTS_H_
#define TENSORD_SERVER_COMPILE_FLIGHTS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/compile/fair_queue.h"
#include "server/pool/cost.h"

namespace tensord::server {

// For programs. A flight waits for its turn, which callers have one after the other, is then up,
// and lands when its leader calls Finish(). Waiters are callbacks, so that a waiting request holds
// no thread. Times are of SteadyNow(). `Task` is what there is to do, kept until the flight's turn.
template <class Task, class Waiter>
class ProgramFlights {
 public:
  // At most `workers` flights are up, of which PlacesFor(kExpensive) expensive ones, and `most`
  // wait or are up.
  ProgramFlights(int workers, size_t most) : workers_(workers), most_(most) {}

  // Joins a flight that waits or is up; false, and nothing kept, where there is none. A flight that
  // waits has its turn when it is that of any who joined.
  bool JoinOther(const std::string& key, const std::string& caller, const Waiter& waiter,
                 absl::Time now = SteadyNow()) {
    absl::MutexLock lock(&mutex_);
    const auto found = flights_.find(key);
    if (found == flights_.end()) return false;
    Join(found->second, caller, waiter, now);
    return true;
  }
  // Joins a flight, or else adds one that waits. Where there is no room, the last flight of whom
  // most wait for goes, and those who joined it are returned, unless most are the caller's.
  // Nothing, and nothing kept: there is no room.
  std::optional<std::vector<Waiter>> JoinOrAdd(const std::string& key, const std::string& caller,
                                               Cost cost, Task task, const Waiter& waiter,
                                               absl::Time now = SteadyNow()) {
    FlightPtr gone;  // a task may call others when it goes: not under the lock
    std::vector<Waiter> everybody;
    absl::MutexLock lock(&mutex_);
    auto found = flights_.find(key);
    if (found == flights_.end()) {
      if (flights_.size() >= most_) {
        gone = queue_.LastOfLonger(caller);
        if (gone == nullptr) return std::nullopt;
        everybody = TakeWaiting(*gone);
        queue_.Remove(gone);
        flights_.erase(gone->key);
      }
      auto flight = std::make_shared<Flight>();
      flight->key = key;
      flight->cost = cost;
      flight->task = std::move(task);
      found = flights_.emplace(key, std::move(flight)).first;
    }
    Join(found->second, caller, waiter, now);
    return everybody;
  }

  struct Turn {
    std::string key;
    Task task;
  };
  // The flight whose turn it is; its leader must call Finish exactly once. Nothing: none waits, or
  // as many as may are up.
  std::optional<Turn> Next() {
    absl::MutexLock lock(&mutex_);
    const FlightPtr flight =
        queue_.Take([&](const FlightPtr& next) { return HasRoom(next->cost); });
    if (flight == nullptr) return std::nullopt;
    queue_.Remove(flight);
    flight->up = true;
    ++(flight->cost == Cost::kExpensive ? expensive_up_ : cheap_up_);
    return Turn{flight->key, std::move(flight->task)};
  }
  // Ends the flight. Returns everybody who joined, in order.
  std::vector<Waiter> Finish(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    auto node = flights_.extract(key);
    if (node.empty()) return {};
    --(node.mapped()->cost == Cost::kExpensive ? expensive_up_ : cheap_up_);
    return TakeWaiting(*node.mapped());
  }

  // Removes and returns those who joined before `then` a flight that still waits. A flight that
  // nobody waits for goes too.
  std::vector<Waiter> TakeLate(absl::Time then) {
    std::vector<Waiter> late;
    std::vector<FlightPtr> gone;  // a task may call others when it goes: not under the lock
    absl::MutexLock lock(&mutex_);
    for (auto next = flights_.begin(); next != flights_.end();) {
      const FlightPtr flight = next->second;
      std::vector<Waiting>& waiting = flight->waiting;
      const auto is_late = [&](const Waiting& one) { return one.since <= then; };
      const auto end =
          flight->up ? waiting.begin() : std::find_if_not(waiting.begin(), waiting.end(), is_late);
      for (auto one = waiting.begin(); one != end; ++one) late.push_back(std::move(one->waiter));
      waiting.erase(waiting.begin(), end);
      if (waiting.empty()) {
        queue_.Remove(flight);
        gone.push_back(flight);
      }
      next = waiting.empty() ? flights_.erase(next) : std::next(next);
    }
    return late;
  }
  // The same, once there is somebody who has waited for `limit`. Empty: Stop() was called.
  std::vector<Waiter> AwaitLate(absl::Duration limit) {
    std::vector<Waiter> late;
    while (late.empty() && AwaitAge(limit)) late = TakeLate(SteadyNow() - limit);
    return late;
  }
  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }

  // Flights that wait for their turn.
  size_t waiting() const {
    absl::MutexLock lock(&mutex_);
    return flights_.size() - static_cast<size_t>(expensive_up_ + cheap_up_);
  }

 private:
  struct Waiting {
    Waiter waiter;
    absl::Time since;
  };
  struct Flight {
    std::string key;
    Cost cost = Cost::kCheap;
    Task task;
    bool up = false;
    std::vector<Waiting> waiting;
  };
  using FlightPtr = std::shared_ptr<Flight>;

  static std::vector<Waiter> TakeWaiting(Flight& flight) {
    std::vector<Waiter> everybody;
    for (Waiting& waiting : flight.waiting) everybody.push_back(std::move(waiting.waiter));
    return everybody;
  }
  void Join(const FlightPtr& flight, const std::string& caller, const Waiter& waiter,
            absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!flight->up) queue_.Add(caller, flight);
    flight->waiting.push_back({waiter, now});
  }
  bool HasRoom(Cost cost) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return expensive_up_ + cheap_up_ < workers_ &&
           (cost == Cost::kCheap || expensive_up_ < PlacesFor(Cost::kExpensive, workers_));
  }
  bool SomebodyWaitsOrStopped() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopped_ || flights_.size() > static_cast<size_t>(expensive_up_ + cheap_up_);
  }
  absl::Time Oldest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    absl::Time oldest = absl::InfiniteFuture();
    for (const auto& [key, flight] : flights_) {
      if (!flight->up) oldest = std::min(oldest, flight->waiting.front().since);
    }
    return oldest;
  }
  // Until the oldest of those who wait is so old; false: Stop() was called.
  bool AwaitAge(absl::Duration limit) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &ProgramFlights::SomebodyWaitsOrStopped));
    return !mutex_.AwaitWithTimeout(absl::Condition(&stopped_), Oldest() + limit - SteadyNow());
  }

  const int workers_;
  const size_t most_;
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, FlightPtr> flights_ ABSL_GUARDED_BY(mutex_);
  FairQueue<FlightPtr> queue_ ABSL_GUARDED_BY(mutex_);  // of those that are not up
  int cheap_up_ ABSL_GUARDED_BY(mutex_) = 0;
  int expensive_up_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

// For kernels. Whoever waits holds a compile thread but no worker; a leader finishes its own
// kernels before it waits for others', so that no two wait for each other.
class KernelFlights {
 public:
  // True: the caller leads and must call Finish.
  bool Claim(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    return flying_.insert(key).second;
  }
  void Finish(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    flying_.erase(key);
  }
  // Returns when nobody makes `key`: made or failed, look it up to see.
  void Wait(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    const auto landed = [&] { return flying_.count(key) == 0; };
    mutex_.Await(absl::Condition(&landed));
  }

 private:
  absl::Mutex mutex_;
  std::unordered_set<std::string> flying_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_FLIGHTS_H_
