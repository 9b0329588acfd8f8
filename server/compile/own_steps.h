// SPDX-License-Identifier: Apache-2.0
// What the daemon does by itself while somebody waits: look-ups, and what a compile reads and
// writes. Each step is short unless the daemon hangs, on a disk that does not answer, say. Workers'
// jobs are none: they have limits of their own.
#ifndef TENSORD_SERVER_COMPILE_OWN_STEPS_H_
#define TENSORD_SERVER_COMPILE_OWN_STEPS_H_

#include <absl/base/thread_annotations.h>
#include <absl/strings/str_cat.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "tensord/v1/requests.pb.h"

namespace tensord::server {

// What a compile's step on the disk may take: it syncs what it writes, which on a busy disk is a
// matter of seconds.
inline constexpr absl::Duration kUsualDiskStep = absl::Seconds(10);

// Whose a look-up is: the name of a process beside the keys of programs.
inline std::string ProcessOf(const v1::Caller& caller) {
  return absl::StrCat("process ", caller.pid(), " ", caller.host());
}

// Thread-safe. Times are of SteadyNow().
class OwnSteps {
  struct Entry {
    std::string whose;
    absl::Time due;  // when it would usually have ended; InfiniteFuture: it waits for others' steps
  };
  using Entries = std::list<Entry>;

 public:
  // From its making to its end one thread takes a step, or waits; before the end of what made it.
  class Step {
   public:
    Step(Step&& other) noexcept
        : steps_(std::exchange(other.steps_, nullptr)), entry_(other.entry_) {}
    Step& operator=(Step&&) = delete;
    ~Step() {
      if (steps_ != nullptr) steps_->End(entry_);
    }

   private:
    friend class OwnSteps;
    Step(OwnSteps* steps, Entries::iterator entry) : steps_(steps), entry_(entry) {}
    OwnSteps* steps_;
    Entries::iterator entry_;
  };

  // `whose`: a program's key, or a process (ProcessOf). `usual`: what such a step may take on a
  // busy machine.
  [[nodiscard]] Step Begin(std::string whose, absl::Duration usual, absl::Time now = SteadyNow()) {
    return Add({std::move(whose), now + usual});
  }
  // Until other programs' steps have been taken.
  [[nodiscard]] Step Wait(std::string whose) {
    return Add({std::move(whose), absl::InfiniteFuture()});
  }

  // What calls a function that writes to the disk, as a step. The steps outlive it.
  std::function<absl::Status(const std::function<absl::Status()>&)> OnDisk(std::string whose) {
    return [this, whose = std::move(whose)](const std::function<absl::Status()>& write) {
      const Step step = Begin(whose, kUsualDiskStep);
      return write();
    };
  }

  struct State {
    bool waits = false;  // for others' steps
    // By how much its longest step is overdue, zero for one that is not; nothing: it takes none.
    std::optional<absl::Duration> overdue;
  };
  State Of(std::string_view whose, absl::Time now = SteadyNow()) const {
    absl::MutexLock lock(&mutex_);
    State state;
    for (const Entry& entry : entries_) {
      if (entry.whose != whose) continue;
      if (entry.due == absl::InfiniteFuture()) {
        state.waits = true;
      } else {
        // Steps that wait for others' locks are late, for a while, though these end one by one.
        absl::Duration overdue = now - entry.due;
        if (overdue < kUsualDiskStep) overdue = std::min(overdue, now - last_end_);
        state.overdue =
            std::max({state.overdue.value_or(absl::ZeroDuration()), overdue, absl::ZeroDuration()});
      }
    }
    return state;
  }

 private:
  Step Add(Entry entry) {
    Entries one;  // made before the lock is taken
    one.push_back(std::move(entry));
    absl::MutexLock lock(&mutex_);
    entries_.splice(entries_.begin(), one);
    return Step(this, entries_.begin());
  }
  void End(Entries::iterator entry) {
    Entries one;
    absl::MutexLock lock(&mutex_);
    if (entry->due != absl::InfiniteFuture()) last_end_ = SteadyNow();
    one.splice(one.begin(), entries_, entry);
  }

  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // as many as threads take steps
  absl::Time last_end_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // of a step
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_OWN_STEPS_H_
