// SPDX-License-Identifier: Apache-2.0
// The index of a store, for all its threads: locked, opened again after the disk's trouble, and set
// aside for a new one when it proves damaged.
#ifndef TENSORD_SERVER_STORE_SHARED_INDEX_H_
#define TENSORD_SERVER_STORE_SHARED_INDEX_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/store/index.h"

namespace tensord::store {

class SharedIndex {
 public:
  // <root>/index.sqlite; `warn` is told when it is made anew.
  SharedIndex(std::string root, std::function<void(const std::string&)> warn)
      : path_(root + "/index.sqlite"), warn_(std::move(warn)) {}

  absl::Status Open();

  // f(index), once more with a new index when that one proves damaged. f gives a status or a
  // StatusOr. An index that another process has put in place of ours is opened. Unavailable: the
  // index cannot be opened now.
  template <class F>
  auto With(F f) -> decltype(f(std::declval<Index&>())) {
    absl::MutexLock lock(&mutex_);
    if ((index_ == nullptr || IsReplaced()) && !OpenOrRenew().ok()) {
      return absl::UnavailableError("the index cannot be opened");
    }
    auto result = f(*index_);
    if (!absl::IsDataLoss(StatusOf(result))) return result;
    SetAsideDamaged(StatusOf(result));
    if (index_ == nullptr) return result;
    return f(*index_);
  }

  // Whether what evictions go by is what the rows say, or else sets the index aside: a bit that
  // flipped there would evict everything, or nothing. Reads all rows, while nobody waits, until
  // `stops` says otherwise.
  void CheckTotals(const std::function<bool()>& stops);
  // Sets the index aside, for a new one.
  absl::Status Renew();
  // True once after another index was opened than before: one that was damaged, of an older form or
  // replaced, so that it may not hold what the files say; and after Lacks().
  bool TakeIsNew();
  // It could not take what a file says.
  void Lacks();
  // Of the database and its log.
  uint64_t BytesOnDisk() const;

 private:
  static absl::Status StatusOf(const absl::Status& status) { return status; }
  template <class T>
  static absl::Status StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }
  bool IsReplaced() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Opens it, or a new one where it is damaged.
  absl::Status OpenOrRenew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With the lock file held, as nobody renames meanwhile.
  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAside(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAsideDamaged(const absl::Status& damage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::function<void(const std::string&)> warn_;
  absl::Mutex mutex_;
  std::unique_ptr<Index> index_ ABSL_GUARDED_BY(mutex_);  // null: it could not be opened
  uint64_t inode_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_new_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_SHARED_INDEX_H_
