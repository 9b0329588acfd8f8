// SPDX-License-Identifier: Apache-2.0
// Single flight: of several who want the same thing, one makes it and the others wait.
#ifndef TENSORD_SERVER_COMPILE_FLIGHTS_H_
#define TENSORD_SERVER_COMPILE_FLIGHTS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tensord::server {

// For programs. Waiters are callbacks, so that a waiting request holds no thread.
template <class Waiter>
class ProgramFlights {
 public:
  // True: the caller leads, and must call Finish exactly once. Either way `waiter` is kept.
  bool Join(const std::string& key, Waiter waiter) {
    absl::MutexLock lock(&mutex_);
    std::vector<Waiter>& waiters = flights_[key];
    waiters.push_back(std::move(waiter));
    return waiters.size() == 1;
  }
  // Joins a flight that is up; false, and nothing kept, where there is none.
  bool JoinOther(const std::string& key, const Waiter& waiter) {
    absl::MutexLock lock(&mutex_);
    const auto flight = flights_.find(key);
    if (flight == flights_.end()) return false;
    flight->second.push_back(waiter);
    return true;
  }
  // Ends the flight. Returns everybody who joined, the leader's waiter first.
  std::vector<Waiter> Finish(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    auto node = flights_.extract(key);
    return node.empty() ? std::vector<Waiter>() : std::move(node.mapped());
  }
  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return flights_.size();
  }

 private:
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, std::vector<Waiter>> flights_ ABSL_GUARDED_BY(mutex_);
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
