// SPDX-License-Identifier: Apache-2.0
// What the store does beside serving: it makes the index agree with the files, and the disk with
// the memory.
#include <absl/time/time.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "server/store/store.h"

namespace tensord::store {
namespace {

// A blob this old that no record names has lost its writer.
constexpr int64_t kStraySeconds = 600;
constexpr absl::Duration kWriteBackEvery = absl::Seconds(5);

// Of the file's content, in seconds since the epoch; 0: no file.
int64_t ModifiedSeconds(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_mtime) : 0;
}

}  // namespace

bool Store::IsClosing() {
  absl::MutexLock lock(&state_mutex_);
  return closing_;
}

void Store::SetProblem(const absl::Status& status) {
  std::string problem(status.message());
  absl::MutexLock lock(&state_mutex_);
  if (problem_.empty() && options_.warn) {
    options_.warn("what is compiled is kept in memory: " + problem);
  }
  problem_ = std::move(problem);
}

std::string Store::problem() {
  absl::MutexLock lock(&state_mutex_);
  return problem_;
}

void Store::ReconcileProgram(const std::string& key) {
  const auto known = index_.With([&](Index& index) { return index.HasProgram(key); });
  if (!known.ok() || *known) return;
  absl::StatusOr<std::shared_ptr<const Record>> record;
  {
    absl::MutexLock lock(&files_mutex_);
    record = programs_.Get(key);
  }
  const std::string path = programs_.PathOf(key);
  if (absl::IsNotFound(record.status()) || absl::IsDataLoss(record.status())) {
    programs_.Remove(key);  // of an older form, or of another key
    return;
  }
  if (!record.ok()) return;
  const int64_t used_ms = ModifiedSeconds(path) * 1000;
  const absl::Status added =
      AddProgramRow({key, DecodeProgramFacts((*record)->facts), 0, 0, used_ms, used_ms}, **record);
  if (absl::IsAborted(added)) programs_.Remove(key);  // a blob of it is gone
}

void Store::ReconcileKernel(const std::string& kernel_key) {
  const auto known = index_.With([&](Index& index) { return index.HasKernel(kernel_key); });
  if (!known.ok() || *known) return;
  absl::StatusOr<std::shared_ptr<const Record>> record;
  {
    absl::MutexLock lock(&files_mutex_);
    record = kernels_.Get(kernel_key);
  }
  const bool unusable = absl::IsNotFound(record.status()) || absl::IsDataLoss(record.status());
  if (!unusable && !record.ok()) return;
  if (unusable || (*record)->blobs.size() != 1 || !blobs_.Exists((*record)->blobs[0])) {
    kernels_.Remove(kernel_key);
    return;
  }
  AddKernelRow(kernel_key, (*record)->blobs[0],
               ModifiedSeconds(kernels_.PathOf(kernel_key)) * 1000);
}

void Store::ForgetLostPrograms() {
  const auto rows = index_.With([](Index& index) { return index.List(0); });
  if (!rows.ok()) return;
  for (const ProgramRow& row : *rows) {
    if (IsClosing()) return;
    if (access(programs_.PathOf(row.key).c_str(), F_OK) == 0 || errno != ENOENT) continue;
    index_.With([&](Index& index) { return index.RemoveProgram(row.key); }).IgnoreError();
  }
}

void Store::RemoveStrayBlobs() {
  const int64_t now = time(nullptr);
  ForEachDigestFile(blobs_.folder(), [&](const std::string& sha256, const std::string& path) {
    if (IsClosing()) return;
    const auto known = index_.With([&](Index& index) { return index.HasBlob(sha256); });
    if (!known.ok() || *known || now - ModifiedSeconds(path) < kStraySeconds) return;
    blobs_.Remove(sha256);
  });
}

void Store::Reconcile() {
  // What becomes new from here on is found the next time.
  index_.TakeIsNew();
  const auto unless_closing = [this](void (Store::*visit)(const std::string&)) {
    return [this, visit](const std::string& key) {
      if (!IsClosing()) (this->*visit)(key);
    };
  };
  kernels_.ForEachKey(unless_closing(&Store::ReconcileKernel));
  programs_.ForEachKey(unless_closing(&Store::ReconcileProgram));
  ForgetLostPrograms();
  RemoveStrayBlobs();
}

Verification Store::Verify() {
  Verification found;
  const auto count = [&found](const absl::Status& status, uint64_t* sound) {
    const bool gone = absl::IsNotFound(status) || absl::IsDataLoss(status);
    ++(status.ok() ? *sound : gone ? found.damaged : found.unreadable);
    return gone;
  };
  {
    absl::MutexLock lock(&files_mutex_);
    programs_.ForgetAll();
    kernels_.ForgetAll();
    blobs_.ForgetAll();
  }
  ForEachDigestFile(blobs_.folder(), [&](const std::string& sha256, const std::string&) {
    absl::MutexLock lock(&files_mutex_);
    if (count(blobs_.Verify(sha256).status(), &found.blobs)) blobs_.Remove(sha256);
  });
  const auto records = [&](RecordFolder* folder, uint64_t* sound) {
    folder->ForEachKey([this, folder, sound, &count](const std::string& key) {
      absl::MutexLock lock(&files_mutex_);
      count(FindSound(*folder, key).status(), sound);
    });
  };
  records(&programs_, &found.programs);
  records(&kernels_, &found.kernels);
  return found;
}

absl::Status Store::RebuildIndex() {
  TENSORD_RETURN_IF_ERROR(index_.Renew());
  Reconcile();
  return absl::OkStatus();
}

void Store::WriteBack() {
  if (memory_.empty()) return;
  const auto kernels = memory_.Kernels();
  for (const auto& [key, kernel] : kernels) {
    if (IsClosing()) return;
    const absl::Status status = WriteKernel(key, kernel->row, kernel->binary, kernel->source);
    if (!status.ok()) return SetProblem(status);
  }
  for (const auto& [key, program] : memory_.Programs()) {
    if (IsClosing()) return;
    const absl::Status status = WriteProgram(key, program->record, program->detail, program->facts);
    // Aborted: a kernel of it is gone, and the program with it.
    if (!status.ok() && !absl::IsAborted(status)) return SetProblem(status);
    memory_.RemoveProgram(key);
  }
  for (const auto& [key, kernel] : kernels) memory_.RemoveKernel(key);
  absl::MutexLock lock(&state_mutex_);
  problem_.clear();
}

void Store::RunInBackground() {
  Reconcile();
  while (true) {
    {
      absl::MutexLock lock(&state_mutex_);
      state_mutex_.AwaitWithTimeout(absl::Condition(&closing_), kWriteBackEvery);
      if (closing_) return;
    }
    WriteBack();
    if (index_.TakeIsNew()) Reconcile();
  }
}

}  // namespace tensord::store
