// SPDX-License-Identifier: Apache-2.0
#include "server/store/store.h"

#include <absl/strings/str_cat.h>
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "base/sha256.h"

namespace tensord::store {
namespace {

constexpr size_t kMaxPendingUses = 4096;
constexpr size_t kMaxRepros = 32;
constexpr int64_t kTempSeconds = 3600;  // a temporary file this old has lost its writer

int64_t SystemNowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Names in a folder, without "." and "..", with their modification times in seconds.
std::vector<std::pair<time_t, std::string>> FilesIn(const std::string& folder) {
  std::vector<std::pair<time_t, std::string>> files;
  DIR* handle = opendir(folder.c_str());
  if (handle == nullptr) return files;
  while (const dirent* entry = readdir(handle)) {
    struct stat info;
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      files.emplace_back(info.st_mtime, path);
    }
  }
  closedir(handle);
  std::sort(files.begin(), files.end());
  return files;
}

absl::Status CheckRoot(const std::string& root) {
  struct stat info;
  if (stat(root.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot stat " + root);
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(root, " belongs to another user"));
  }
  if ((info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(root, " may be written by others: chmod 700 it"));
  }
  return absl::OkStatus();
}

void RemoveOldTemporaries(const std::string& folder) {
  const time_t now = time(nullptr);
  for (const auto& [modified, path] : FilesIn(folder)) {
    if (now - modified > kTempSeconds) unlink(path.c_str());
  }
}

// Opens the index; one that is damaged is set aside, with everything that only it knew.
absl::StatusOr<Index> OpenIndex(const std::string& root) {
  const std::string path = root + "/index.sqlite";
  absl::StatusOr<Index> index = Index::Open(path);
  if (index.ok() || !absl::IsDataLoss(index.status())) return index;
  const std::string aside = absl::StrCat(path, ".damaged-", time(nullptr));
  if (rename(path.c_str(), aside.c_str()) != 0) return index.status();
  for (const char* suffix : {"-wal", "-shm"}) unlink((path + suffix).c_str());
  return Index::Open(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  if (!options.now_ms) options.now_ms = SystemNowMs;
  const std::string root = options.root;
  TENSORD_RETURN_IF_ERROR(MakeFolder(root));
  TENSORD_RETURN_IF_ERROR(CheckRoot(root));
  for (const char* folder : {"/blobs", "/manifests", "/repros", "/notes", "/tmp"}) {
    TENSORD_RETURN_IF_ERROR(MakeFolder(root + folder));
  }
  TENSORD_ASSIGN_OR_RETURN(Signer signer, Signer::Open(root + "/key", root + "/tmp"));
  // Shows at once whether the folder can be written, not at the first compile.
  TENSORD_RETURN_IF_ERROR(WriteFileAtomically(root + "/notes/opened", "", 0600, root + "/tmp"));
  RemoveOldTemporaries(root + "/tmp");
  TENSORD_ASSIGN_OR_RETURN(Index index, OpenIndex(root));
  return std::unique_ptr<Store>(new Store(std::move(options), std::move(signer), std::move(index)));
}

Store::Store(StoreOptions options, Signer signer, Index index)
    : options_(std::move(options)),
      temp_folder_(options_.root + "/tmp"),
      blobs_(options_.root + "/blobs", temp_folder_),
      manifests_(options_.root + "/manifests", temp_folder_, std::move(signer)),
      index_(std::move(index)) {}

Store::~Store() {
  absl::MutexLock lock(&index_mutex_);
  FlushUses();
}

absl::StatusOr<std::shared_ptr<const Manifest>> Store::Lookup(std::string_view key) {
  std::shared_ptr<const Manifest> found;
  {
    absl::MutexLock lock(&files_mutex_);
    auto manifest = manifests_.Get(key);
    if (!manifest.ok()) {
      if (absl::IsDataLoss(manifest.status())) RemoveDamaged(key, "");
      return absl::NotFoundError(manifest.status().message());
    }
    for (const std::string& blob : (*manifest)->blobs) {
      if (const absl::Status status = blobs_.Verify(blob); !status.ok()) {
        RemoveDamaged(key, blob);
        return absl::NotFoundError(status.message());
      }
    }
    found = *std::move(manifest);
  }
  CountUse(key);
  return found;
}

void Store::RemoveDamaged(std::string_view key, std::string_view blob) {
  ++counters_.corrupt;
  manifests_.Remove(key);
  if (!blob.empty()) blobs_.Remove(blob);
  absl::MutexLock lock(&index_mutex_);
  uses_.erase(std::string(key));
  // The files are gone, which is what counts; rows that stay are found again at their next look-up.
  index_.RemoveProgram(key).IgnoreError();
  if (!blob.empty()) index_.RemoveBlob(blob).IgnoreError();
}

void Store::CountUse(std::string_view key) {
  const int64_t now = options_.now_ms();
  absl::MutexLock lock(&index_mutex_);
  if (uses_.size() >= kMaxPendingUses) FlushUses();
  Use& use = uses_[std::string(key)];
  ++use.hits;
  use.used_ms = now;
  if (now - use.written_ms < kTouchMs) return;
  // Statistics only: a busy index costs no look-up.
  if (index_.Touch(key, use.hits, now).ok()) use = {0, now, now};
}

void Store::FlushUses() {
  for (const auto& [key, use] : uses_) {
    if (use.hits > 0) index_.Touch(key, use.hits, use.used_ms).IgnoreError();
  }
  uses_.clear();
}

absl::Status Store::Publish(std::string_view key, const Manifest& manifest, std::string_view detail,
                            const ProgramFacts& facts) {
  const int64_t now = options_.now_ms();
  std::vector<std::string> blobs = manifest.blobs;
  std::sort(blobs.begin(), blobs.end());
  blobs.erase(std::unique(blobs.begin(), blobs.end()), blobs.end());
  uint64_t blob_bytes = 0;
  for (const std::string& blob : blobs) {
    struct stat info;
    if (stat(blobs_.PathOf(blob).c_str(), &info) != 0) {
      return absl::AbortedError("a kernel was evicted while the program was compiled");
    }
    blob_bytes += static_cast<uint64_t>(info.st_size);
  }
  TENSORD_ASSIGN_OR_RETURN(const uint64_t size, manifests_.Put(key, manifest, detail));
  ProgramRow row{std::string(key), facts, size + blob_bytes, 0, now, now};
  absl::Status added;
  {
    absl::MutexLock lock(&index_mutex_);
    uses_.erase(std::string(key));
    added = index_.AddProgram(row, size, blobs, [&]() -> absl::Status {
      for (const std::string& blob : blobs) {
        if (!blobs_.Exists(blob)) {
          return absl::AbortedError("a kernel was evicted while the program was compiled");
        }
      }
      return absl::OkStatus();
    });
  }
  if (!added.ok()) {
    // A manifest that the index does not know would never be evicted.
    manifests_.Remove(key);
    return added;
  }
  EvictIfFull();
  return absl::OkStatus();
}

void Store::EvictIfFull() {
  if (options_.limit_bytes == 0) return;
  absl::MutexLock lock(&index_mutex_);
  const auto totals = index_.Count();
  if (!totals.ok() || totals->bytes <= options_.limit_bytes) return;
  FlushUses();
  // Below the limit by a tenth, so that not every publication evicts.
  const uint64_t target = options_.limit_bytes - options_.limit_bytes / 10;
  const auto evicted = index_.Evict(
      target, options_.now_ms() - options_.keep_ms,
      [this](std::string_view key) { manifests_.Remove(key); },
      [this](std::string_view sha256) { blobs_.Remove(sha256); });
  if (evicted.ok()) counters_.evicted += *evicted;
}

std::optional<KernelRow> Store::FindKernel(std::string_view kernel_key) {
  std::optional<KernelRow> row;
  {
    absl::MutexLock lock(&index_mutex_);
    auto found = index_.FindKernel(kernel_key, options_.now_ms());
    if (!found.ok() || !found->has_value()) return std::nullopt;
    row = **std::move(found);
  }
  absl::MutexLock lock(&files_mutex_);
  if (blobs_.Verify(row->sha256).ok()) return row;
  ++counters_.corrupt;
  blobs_.Remove(row->sha256);
  absl::MutexLock index_lock(&index_mutex_);
  index_.RemoveBlob(row->sha256).IgnoreError();
  return std::nullopt;
}

absl::StatusOr<KernelRow> Store::PutKernel(std::string_view kernel_key, std::string_view binary,
                                           std::string_view source, std::string_view facts) {
  const KernelRow row{Sha256(binary), binary.size(), std::string(facts)};
  bool there = false;
  {
    absl::MutexLock lock(&files_mutex_);
    there = blobs_.Verify(row.sha256).ok();
  }
  if (!there) TENSORD_RETURN_IF_ERROR(blobs_.Put(row.sha256, binary));
  absl::MutexLock lock(&index_mutex_);
  TENSORD_RETURN_IF_ERROR(index_.AddKernel(kernel_key, row, source, options_.now_ms()));
  return row;
}

absl::StatusOr<std::string> Store::KernelSource(std::string_view kernel_key) {
  absl::MutexLock lock(&index_mutex_);
  return index_.KernelSource(kernel_key);
}

absl::StatusOr<std::string> Store::ReadBlob(std::string_view sha256) {
  TENSORD_ASSIGN_OR_RETURN(std::string data, ReadFile(blobs_.PathOf(sha256)));
  if (Sha256(data) != sha256) return absl::DataLossError("blob does not have its digest");
  return data;
}

absl::StatusOr<std::vector<ProgramRow>> Store::List(uint32_t limit) {
  absl::MutexLock lock(&index_mutex_);
  FlushUses();
  return index_.List(limit);
}

absl::StatusOr<ProgramRow> Store::Find(std::string_view prefix) {
  absl::MutexLock lock(&index_mutex_);
  FlushUses();
  TENSORD_ASSIGN_OR_RETURN(std::vector<ProgramRow> rows, index_.Find(prefix, 2));
  if (rows.empty()) return absl::NotFoundError("no program has that key");
  if (rows.size() > 1) {
    return absl::FailedPreconditionError("several programs begin with that key: give more of it");
  }
  return std::move(rows.front());
}

absl::StatusOr<std::shared_ptr<const Manifest>> Store::Peek(std::string_view key) {
  absl::MutexLock lock(&files_mutex_);
  return manifests_.Get(key);
}

absl::StatusOr<std::string> Store::Detail(std::string_view key) {
  return manifests_.GetDetail(key);
}

absl::StatusOr<Totals> Store::Count() {
  absl::MutexLock lock(&index_mutex_);
  return index_.Count();
}

std::string Store::GetNote(const std::string& name) {
  return ReadFile(absl::StrCat(options_.root, "/notes/", name)).value_or("");
}

void Store::PutNote(const std::string& name, std::string_view value) {
  // A note only saves time; without it the next daemon asks again.
  WriteFileAtomically(absl::StrCat(options_.root, "/notes/", name), value, 0600, temp_folder_)
      .IgnoreError();
}

absl::StatusOr<std::string> Store::KeepRepro(const std::string& name, std::string_view bytes) {
  const std::string folder = options_.root + "/repros";
  const std::string path = absl::StrCat(folder, "/", name, ".pb");
  TENSORD_RETURN_IF_ERROR(WriteFileAtomically(path, bytes, 0600, temp_folder_));
  const auto files = FilesIn(folder);
  for (size_t i = 0; i + kMaxRepros < files.size(); ++i) unlink(files[i].second.c_str());
  return path;
}

}  // namespace tensord::store
