// SPDX-License-Identifier: Apache-2.0
#include "server/store/shared_index.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <utility>

#include "server/store/blobs.h"
#include "server/store/file_lock.h"

namespace tensord::store {
namespace {

constexpr const char* kFiles[] = {"", "-wal", "-shm"};

uint64_t InodeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

}  // namespace

absl::Status SharedIndex::Open() {
  absl::MutexLock lock(&mutex_);
  return OpenOrRenew();
}

void SharedIndex::CheckTotals(const std::function<bool()>& stops) {
  // By a connection of its own, which sees one moment of the database.
  uint64_t inode = 0;
  const absl::Status status = [&]() -> absl::Status {
    bool empty = false;
    auto index = [&] {
      const FileLock lock(path_ + ".lock");
      inode = InodeOf(path_);
      return Index::Open(path_, &empty);
    }();
    return index.ok() ? index->CheckTotals(stops) : index.status();
  }();
  absl::MutexLock lock(&mutex_);
  if (absl::IsDataLoss(status) && index_ != nullptr && inode == inode_) {
    SetAsideDamaged(status);
  }
}

absl::Status SharedIndex::Renew() {
  absl::MutexLock lock(&mutex_);
  SetAside("somebody asked for it");
  return index_ == nullptr ? absl::UnavailableError("the index cannot be made") : absl::OkStatus();
}

bool SharedIndex::IsReplaced() const { return InodeOf(path_) != inode_; }

absl::Status SharedIndex::OpenOrRenew() {
  absl::Status status;
  {
    // A full disk takes no lock file; then nobody can rename either.
    // Who renames or opens the index's files, of all processes one after the other.
    const FileLock lock(path_ + ".lock");
    status = OpenFile();
  }
  if (!absl::IsDataLoss(status)) return status;
  SetAsideDamaged(status);
  return index_ == nullptr ? status : absl::OkStatus();
}

absl::Status SharedIndex::OpenFile() {
  const uint64_t before = std::exchange(inode_, 0);
  index_.reset();
  bool empty = false;
  auto index = Index::Open(path_, &empty);
  inode_ = InodeOf(path_);
  is_new_ = is_new_ || empty || (before != 0 && before != inode_);
  if (!index.ok()) return index.status();
  index_ = std::make_unique<Index>(*std::move(index));
  return absl::OkStatus();
}

void SharedIndex::SetAside(const std::string& why) {
  index_.reset();
  const FileLock lock(path_ + ".lock");
  if (!lock.held()) return;
  // Another process may have been first: it has put another file under the name, which stays.
  if (InodeOf(path_) == inode_) {
    for (const char* suffix : kFiles) {
      // The last one that was damaged is kept for people.
      rename((path_ + suffix).c_str(), (path_ + ".damaged" + suffix).c_str());
    }
    if (warn_) {
      warn_(absl::StrCat("the index is made anew from the records, for ", why,
                         "; the old one was kept as ", path_, ".damaged"));
    }
  }
  OpenFile().IgnoreError();
}

void SharedIndex::SetAsideDamaged(const absl::Status& damage) {
  SetAside(absl::StrCat("it is damaged (", damage.message(), ")"));
}

bool SharedIndex::TakeIsNew() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(is_new_, false);
}

void SharedIndex::Lacks() {
  absl::MutexLock lock(&mutex_);
  is_new_ = true;
}

uint64_t SharedIndex::BytesOnDisk() const {
  uint64_t bytes = 0;
  for (const char* suffix : kFiles) bytes += store::BytesOnDisk(path_ + suffix);
  return bytes;
}

}  // namespace tensord::store
