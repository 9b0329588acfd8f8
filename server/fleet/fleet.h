// SPDX-License-Identifier: Apache-2.0
// What other hosts have made: asked for before something is compiled or captured, and given what
// was made here. All of it happens in threads of its own, behind a circuit breaker.
//
//   Find ─ breaker open ────────────────────────────────────────────────────────▶ Unavailable
//          manifest? ─ yes: blobs, verified, taken into the store ──────────────▶ ok
//                      no answer in time ───────────────────────────────────────▶ DeadlineExceeded
//                      none; does another host make it? ─ no ───────────────────▶ NotFound
//                                                         yes: asks again until it is there, or
//                                                              long enough ─────▶ NotFound
#ifndef TENSORD_SERVER_FLEET_FLEET_H_
#define TENSORD_SERVER_FLEET_FLEET_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/threads.h"
#include "server/fleet/breaker.h"
#include "server/fleet/exchange.h"

namespace tensord::v1 {
class Stats;
}

namespace tensord::fleet {

struct FleetOptions {
  absl::Duration answer = absl::Milliseconds(200);  // how long a miss waits for a first answer
  absl::Duration lease = absl::Seconds(30);  // of one host's compile, and others' wait; 0: none
  int threads = 4;                           // that ask, and as many that fetch
  size_t most_searches = 512;                // at once; who asks beyond that finds nothing
  size_t most_puts = 256;                    // that wait
  BreakerOptions breaker;
};

// Calls what it is given, which takes something into the store, and gives what that does.
using Around = std::function<absl::Status(const std::function<absl::Status()>&)>;

// Every function may be called from several threads.
class Fleet {
 public:
  Fleet(FleetOptions options, std::unique_ptr<Tier> tier, std::unique_ptr<Keys> keys);
  ~Fleet() { Stop(); }

  struct Query {
    Name name;
    Exchange::Has has;  // blobs that need not be fetched
    // Brings what was found into the store. DataLoss: it is refused. NotFound: not all is there.
    std::function<absl::Status(Parcel)> take;
    // Where given: calls `take`, and can tell how long that takes. What is asked of the tier has
    // deadlines; what is written to the store has none.
    Around around = {};
    // The right to make it, under a name of its own where what lies under `name` is changed as well
    // (Add): NotFound gives it to this host until Put, Add or GiveUp. Nothing: nobody waits for who
    // makes it.
    std::optional<Name> lease;
    // How long it waits for another host that makes it; by default for as long as a lease lasts.
    absl::Duration wait = absl::InfiniteDuration();
    // How long it waits for a first answer, where that is less than FleetOptions says. Then the
    // tier is not to blame for what is late.
    absl::Duration answer = absl::InfiniteDuration();
  };
  // Called once, on a thread of the fleet's or on the caller's. Is not to block for long.
  using Done = std::function<void(absl::Status)>;
  // Of several who ask for one name at a time, the first one's query counts for all.
  void Find(Query query, Done done);

  // Puts what `make` gives when it is its turn. Dropped, and counted, while the breaker is open or
  // too much waits. Nothing where this host may not write.
  void Put(const Name& name, std::function<absl::StatusOr<Parcel>()> make);
  // Adds a blob to those that lie under the name, of which the latest 64 stay. `lease`: of the
  // right to make it, which ends.
  void Add(const Name& name, std::function<absl::StatusOr<Blob>()> make,
           const std::optional<Name>& lease = std::nullopt);
  // What a search left to this host to make is not made: another host's turn. Nothing where this
  // host has no such right.
  void GiveUp(const Name& lease);

  void FillStats(v1::Stats* stats);
  const FleetOptions& options() const { return options_; }

  // Waits until nothing is left to put, until then at most.
  void Flush(absl::Time deadline);
  // Answers everybody with Unavailable, and ends the threads. No callback runs behind this.
  void Stop();

 private:
  struct Search;
  // A lease that this host has.
  struct Held {
    std::string token;
    absl::Time until;
  };
  using SearchPtr = std::shared_ptr<Search>;

  // The ways of a search, on threads_; Fetch goes on on fetching_.
  void Seek(const SearchPtr& search);
  void Claim(const SearchPtr& search);
  void Fetch(const SearchPtr& search, const v1::FleetManifest& manifest);
  void SeekLater(const SearchPtr& search);
  absl::StatusOr<v1::FleetManifest> Look(const SearchPtr& search);
  void FetchNow(const SearchPtr& search, const v1::FleetManifest& manifest);
  absl::StatusOr<Parcel> Carry(const SearchPtr& search, const v1::FleetManifest& manifest);
  // Whether a thread asks the tier from now on, or the search waits for one. False: it is over.
  bool Begin(const SearchPtr& search, bool begun);
  // The search has until then for what it does next, whatever its thread does. `in_full`: which is
  // all the time that it can need. False: it is over.
  bool Allow(const SearchPtr& search, absl::Time deadline, bool in_full = false);
  void Expire(const SearchPtr& search, uint64_t step);
  bool IsOver(const SearchPtr& search);
  bool Holds(const Name& lease);
  // Answers all who wait; `trouble`: of the tier's, which is counted before. False: it was over.
  bool Finish(const SearchPtr& search, const absl::Status& status, bool trouble = false);
  void Refuse(const Name& name, absl::string_view why);

  void CountTrouble(const absl::Status& status);
  // The tier answers, and did not let this host write, for want of room or of rights; empty: it
  // did.
  void NoteRefusal(absl::string_view why);
  void ProbeIn(absl::Duration pause);
  void EndProbe(uint64_t probe, const absl::Status& status);

  // What was to be put is not, and who makes it next need not wait for that.
  void Drop(const std::optional<Name>& lease);
  // Runs `task` on putting_; false: it does not. `most`: may wait.
  bool Enqueue(std::function<void()> task, size_t most);
  void PutNow(const Name& name, const absl::StatusOr<std::vector<Object>>& objects);
  absl::StatusOr<std::vector<Object>> PackMore(const Name& name, const Blob& blob);
  void ReleaseNow(const Name& lease);
  double Jitter();  // from 0.5 to 1.5

  const FleetOptions options_;
  const std::unique_ptr<Tier> tier_;
  const std::unique_ptr<Keys> keys_;
  Exchange exchange_;
  Breaker breaker_;
  std::atomic<uint64_t> hits_{0}, misses_{0}, errors_{0}, skipped_{0}, refused_{0}, put_{0},
      dropped_{0}, waited_{0};

  absl::Mutex mutex_;  // before the breaker's and the threads'
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, SearchPtr> searches_ ABSL_GUARDED_BY(mutex_);  // by path of the name
  std::map<std::string, Held> leases_ ABSL_GUARDED_BY(mutex_);         // by path
  size_t puts_ ABSL_GUARDED_BY(mutex_) = 0;                            // that wait or run
  uint64_t probe_ ABSL_GUARDED_BY(mutex_) = 0;                         // the last one's number
  std::string refusal_ ABSL_GUARDED_BY(mutex_);                        // NoteRefusal's last
  std::minstd_rand random_ ABSL_GUARDED_BY(mutex_);
  Threads threads_;   // of questions that are answered in no time, or late
  Threads fetching_;  // of what takes its time, the disk's among it
  Threads putting_;   // one
};

}  // namespace tensord::fleet

#endif  // TENSORD_SERVER_FLEET_FLEET_H_
