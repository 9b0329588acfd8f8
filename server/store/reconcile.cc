// SPDX-License-Identifier: Apache-2.0
// What the store does beside serving: it makes the index agree with the files, and the disk with
// the memory.
#include <absl/time/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "server/store/store.h"

namespace tensord::store {
namespace {

// A blob this old that no record names has lost its writer.
constexpr int64_t kStraySeconds = 600;
// Rows that are added in one transaction, and keys that are read in one: the index is others' too.
constexpr size_t kAddedAtOnce = 4096;
constexpr uint32_t kKeysAtOnce = 1024;
constexpr absl::Duration kWriteBackEvery = absl::Seconds(5);

// Records that are worth another thread, and that one takes at a time.
constexpr size_t kWorthAThread = 256;
constexpr size_t kTakenAtOnce = 32;

// What `make` gives for keys, in their order; nothing for those for which it gives nothing. Two
// threads call it where there are many: half of the time goes to the disk.
template <class Make>
auto MakeAll(const std::vector<std::string>& keys, Make make) {
  using Made = std::invoke_result_t<Make, const std::string&>;
  std::vector<Made> made(keys.size());
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t first; (first = next.fetch_add(kTakenAtOnce)) < keys.size();) {
      const size_t end = std::min(first + kTakenAtOnce, keys.size());
      for (size_t i = first; i < end; ++i) made[i] = make(keys[i]);
    }
  };
  std::thread other;
  try {
    if (keys.size() >= kWorthAThread) other = std::thread(run);
  } catch (const std::system_error&) {  // none is to be had: this one does it
  }
  run();
  if (other.joinable()) other.join();
  std::vector<typename Made::value_type> rows;
  for (Made& one : made) {
    if (one.has_value()) rows.push_back(*std::move(one));
  }
  return rows;
}

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

std::optional<Index::Program> Store::ReadProgramRow(const std::string& key) {
  const auto record = programs_.Read(key);
  if (IsGone(record.status())) programs_.Remove(key);  // of an older form, or of another key
  if (!record.ok()) return std::nullopt;
  const int64_t used_ms = ModifiedSeconds(programs_.PathOf(key)) * 1000;
  auto row = RowsOf({key, DecodeProgramFacts(record->facts), 0, 0, used_ms, used_ms}, *record);
  if (absl::IsAborted(row.status())) programs_.Remove(key);  // a blob of it is gone
  return row.ok() ? std::optional(*std::move(row)) : std::nullopt;
}

absl::Status Store::AddProgramRows(Index& index, const std::vector<Index::Program>& rows) {
  return index.AddPrograms(rows, [this](const Index::Program& program) {
    const bool whole =
        std::all_of(program.blobs.begin(), program.blobs.end(),
                    [this](const FileRow& blob) { return blobs_.Exists(blob.name); });
    if (!whole) programs_.Remove(program.row.key);
    return whole;
  });
}

std::optional<Index::Kernel> Store::ReadKernelRow(const std::string& kernel_key) {
  const auto record = kernels_.Read(kernel_key);
  if (!record.ok() && !IsGone(record.status())) return std::nullopt;
  if (!record.ok() || record->blobs.size() != 1 || !blobs_.Exists(record->blobs[0])) {
    kernels_.Remove(kernel_key);
    return std::nullopt;
  }
  return RowOfKernel(kernel_key, record->blobs[0],
                     ModifiedSeconds(kernels_.PathOf(kernel_key)) * 1000);
}

std::optional<FrameRow> Store::ReadFrameRow(const std::string& key) {
  const auto record = frames_.Read(key);
  if (!record.ok() && !IsGone(record.status())) return std::nullopt;
  auto facts = record.ok() ? DecodeFrameFacts(record->facts) : record.status();
  if (!facts.ok()) {
    frames_.Remove(key);
    return std::nullopt;
  }
  const std::string path = frames_.PathOf(key);
  const int64_t used_ms = ModifiedSeconds(path) * 1000;
  return FrameRow{key, *std::move(facts), BytesOnDisk(path), 0, used_ms, used_ms};
}

template <class Read, class Add>
void Store::AddUnknown(const RecordFolder& folder,
                       absl::StatusOr<bool> (Index::*has)(std::string_view key), Read read,
                       Add add) {
  std::vector<std::string> unknown;
  const auto add_first = [&](size_t count) {
    const std::vector<std::string> keys(unknown.begin(), unknown.begin() + count);
    unknown.erase(unknown.begin(), unknown.begin() + count);
    {
      absl::MutexLock lock(&files_mutex_);
      RefreshKey();
    }
    const auto rows = MakeAll(
        keys, [&](const std::string& key) { return IsClosing() ? std::nullopt : read(key); });
    if (rows.empty()) return;
    index_.With([&](Index& index) { return add(index, rows); }).IgnoreError();
  };
  folder.ForEachByte([&](const std::vector<std::string>& keys) {
    if (IsClosing()) return;
    std::vector<std::string> more;
    const absl::Status asked = index_.With([&](Index& index) -> absl::Status {
      more.clear();
      for (const std::string& key : keys) {
        TENSORD_ASSIGN_OR_RETURN(const bool known, (index.*has)(key));
        if (!known) more.push_back(key);
      }
      return absl::OkStatus();
    });
    if (!asked.ok()) return;
    unknown.insert(unknown.end(), more.begin(), more.end());
    while (unknown.size() >= kAddedAtOnce) add_first(kAddedAtOnce);
  });
  if (!IsClosing()) add_first(unknown.size());
}

void Store::ForgetLost(const RecordFolder& folder,
                       Keys (Index::*keys_after)(std::string_view after, uint32_t limit),
                       absl::Status (Index::*remove)(std::string_view key)) {
  std::string last;
  while (!IsClosing()) {
    const Keys keys =
        index_.With([&](Index& index) { return (index.*keys_after)(last, kKeysAtOnce); });
    if (!keys.ok() || keys->empty()) return;
    for (const std::string& key : *keys) {
      if (access(folder.PathOf(key).c_str(), F_OK) == 0 || errno != ENOENT) continue;
      index_.With([&](Index& index) { return (index.*remove)(key); }).IgnoreError();
    }
    last = keys->back();
  }
}

bool Store::TakeNamedBlobs(std::set<std::string>* digests) {
  bool complete = true;
  for (RecordFolder* folder : {&kernels_, &programs_}) {
    const bool listed = folder->ForEachKey([&](const std::string& key) {
      if (IsClosing()) return;
      const auto record = ReadRecord(*folder, key);
      complete = complete && (record.ok() || IsGone(record.status()));
      if (!record.ok()) return;
      for (const std::string& blob : (*record)->blobs) digests->erase(blob);
    });
    complete = complete && listed;
  }
  return complete;
}

// The index says which blobs to look at, and the records which of those nobody needs.
void Store::RemoveStrayBlobs() {
  const int64_t now = time(nullptr);
  const auto is_stray = [&](const std::string& sha256) {
    const auto known = index_.With([&](Index& index) { return index.HasBlob(sha256); });
    return known.ok() && !*known && now - ModifiedSeconds(blobs_.PathOf(sha256)) >= kStraySeconds;
  };
  std::set<std::string> strays;
  ForEachDigestFile(blobs_.folder(), [&](const std::string& sha256, const std::string&) {
    if (!IsClosing() && is_stray(sha256)) strays.insert(sha256);
  });
  if (strays.empty() || !TakeNamedBlobs(&strays)) return;
  for (const std::string& sha256 : strays) {
    if (IsClosing()) return;
    if (is_stray(sha256)) blobs_.Remove(sha256);
  }
}

void Store::Reconcile() {
  if (!totals_checked_) {
    index_.CheckTotals([this] { return IsClosing(); });
    totals_checked_ = true;
  }
  // What becomes new from here on is found the next time.
  index_.TakeIsNew();
  AddUnknown(
      kernels_, &Index::HasKernel, [this](const std::string& key) { return ReadKernelRow(key); },
      [](Index& index, const std::vector<Index::Kernel>& rows) { return index.AddKernels(rows); });
  AddUnknown(
      programs_, &Index::HasProgram, [this](const std::string& key) { return ReadProgramRow(key); },
      [this](Index& index, const std::vector<Index::Program>& rows) {
        return AddProgramRows(index, rows);
      });
  AddUnknown(
      frames_, &Index::HasFrame, [this](const std::string& key) { return ReadFrameRow(key); },
      [this](Index& index, const std::vector<FrameRow>& rows) {
        return index.AddFrames(rows, Dropping());
      });
  ForgetLost(programs_, &Index::KeysAfter, &Index::RemoveProgram);
  ForgetLost(frames_, &Index::FrameKeysAfter, &Index::RemoveFrame);
  RemoveStrayBlobs();
}

Verification Store::Verify() {
  Verification found;
  {
    absl::MutexLock lock(&files_mutex_);
    for (RecordFolder* folder : {&programs_, &kernels_, &frames_}) folder->ForgetAll();
    blobs_.ForgetAll();
  }
  const uint64_t damaged_before = counters_.corrupt;
  const auto count = [&found](const absl::Status& status, uint64_t* sound) {
    *sound += status.ok();
    // What is not there any more was evicted meanwhile, or is damaged and counted.
    found.unreadable += !status.ok() && !IsGone(status);
  };
  ForEachDigestFile(blobs_.folder(), [&](const std::string& sha256, const std::string&) {
    absl::MutexLock lock(&files_mutex_);
    const absl::Status status = blobs_.Verify(sha256).status();
    count(status, &found.blobs);
    if (!absl::IsDataLoss(status)) return;
    ++counters_.corrupt;
    blobs_.Remove(sha256);
  });
  const auto records = [&](RecordFolder* folder, uint64_t* sound) {
    folder->ForEachKey(
        [&](const std::string& key) { count(FindSound(*folder, key).status(), sound); });
  };
  records(&programs_, &found.programs);
  records(&kernels_, &found.kernels);
  records(&frames_, &found.frames);
  found.damaged = counters_.corrupt - damaged_before;
  return found;
}

absl::Status Store::RebuildIndex() {
  TENSORD_RETURN_IF_ERROR(index_.Renew());
  Reconcile();
  return absl::OkStatus();
}

void Store::WriteBack() {
  if (memory_.empty() && problem().empty()) return;
  // Programs first, so that their kernels are among those that are written before them.
  const auto programs = memory_.Programs();
  for (const auto& [key, kernel] : memory_.Kernels()) {
    if (IsClosing()) return;
    const absl::Status status = WriteKernel(key, kernel->row, kernel->binary, kernel->source);
    if (!status.ok()) return SetProblem(status);
    memory_.RemoveKernel(key);
  }
  for (const auto& [key, program] : programs) {
    if (IsClosing()) return;
    const absl::Status status = WriteProgram(key, program->record, program->detail, program->facts);
    // Aborted: a kernel of it is gone, and the program with it.
    if (!status.ok() && !absl::IsAborted(status)) return SetProblem(status);
    memory_.RemoveProgram(key);
  }
  for (const auto& [key, frame] : memory_.Frames()) {
    if (IsClosing()) return;
    const int64_t created_ms = frame->created_ms;
    const absl::Status status =
        WriteFrame({key, frame->facts, 0, 0, created_ms, created_ms}, frame->record);
    if (!status.ok()) return SetProblem(status);
    memory_.RemoveFrame(key);
  }
  if (const absl::Status written = TryToWrite(); !written.ok()) return SetProblem(written);
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
    FlushUses(/*all=*/false);
    if (index_.TakeIsNew()) Reconcile();
  }
}

}  // namespace tensord::store
