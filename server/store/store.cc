// SPDX-License-Identifier: Apache-2.0
#include "server/store/store.h"

#include <absl/strings/str_cat.h>
#include <absl/time/clock.h>
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/sha256.h"

namespace tensord::store {
namespace {

constexpr size_t kMaxUses = 65536;
constexpr size_t kMaxRepros = 32;
constexpr size_t kMaxJobLists = 256;
constexpr int64_t kTempSeconds = 3600;  // a temporary file this old has lost its writer
constexpr size_t kMaxMemoryBytes = 256 << 20;
// What a client was told of is opened within five seconds, and never evicted before; the index
// knows of uses only every kTouchMs.
constexpr int64_t kInUseMs = kTouchMs + 5'000;

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

void KeepNewest(const std::string& folder, size_t most) {
  const auto files = FilesIn(folder);
  for (size_t i = 0; i + most < files.size(); ++i) unlink(files[i].second.c_str());
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

absl::Status Evicted() {
  return absl::AbortedError("a kernel was evicted while the program was compiled");
}

// The disk is full: what is there can be served all the same.
bool IsFull(const absl::Status& status) { return absl::IsResourceExhausted(status); }

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  if (!options.now_ms) options.now_ms = SystemNowMs;
  auto store = TryToOpen(options);
  for (const int64_t milliseconds : {20, 80, 200}) {
    // What a machine lacks now it may have a moment later, and a daemon opens its store but once.
    if (store.ok() || absl::IsPermissionDenied(store.status()) ||
        absl::IsFailedPrecondition(store.status())) {
      break;
    }
    absl::SleepFor(absl::Milliseconds(milliseconds));
    store = TryToOpen(options);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::TryToOpen(StoreOptions options) {
  const std::string root = options.root;
  TENSORD_RETURN_IF_ERROR(MakeFolder(root));
  TENSORD_RETURN_IF_ERROR(CheckRoot(root));
  for (const char* folder :
       {"/blobs", "/manifests", "/kernels", "/frames", "/repros", "/jobs", "/notes", "/tmp"}) {
    TENSORD_RETURN_IF_ERROR(MakeFolder(root + folder));
  }
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Signer> signer,
                           Signer::Open(root + "/key", root + "/tmp"));
  RemoveOldTemporaries(root + "/tmp");
  auto store = std::unique_ptr<Store>(new Store(std::move(options), std::move(signer)));
  // At once, not at the first compile.
  const absl::Status written = store->TryToWrite();
  if (!written.ok() && !IsFull(written)) return written;
  const absl::Status opened = store->index_.Open();
  if (absl::IsFailedPrecondition(opened) || absl::IsPermissionDenied(opened)) return opened;
  if (!written.ok()) store->SetProblem(written);
  if (store->options_.background) {
    store->background_ = std::thread([raw = store.get()] { raw->RunInBackground(); });
  }
  return store;
}

Store::Store(StoreOptions options, std::unique_ptr<Signer> signer)
    : options_(std::move(options)),
      temp_folder_(options_.root + "/tmp"),
      memory_(kMaxMemoryBytes),
      signer_(std::move(signer)),
      blobs_(options_.root + "/blobs", temp_folder_),
      programs_("program", options_.root + "/manifests", temp_folder_, signer_.get()),
      kernels_("kernel", options_.root + "/kernels", temp_folder_, signer_.get()),
      frames_("frame", options_.root + "/frames", temp_folder_, signer_.get()),
      index_(options_.root, options_.warn) {}

Store::~Store() {
  {
    absl::MutexLock lock(&state_mutex_);
    closing_ = true;
  }
  if (background_.joinable()) background_.join();
  FlushUses(/*all=*/true);
}

void Store::RefreshKey() {
  if (!signer_->Refresh()) return;
  for (RecordFolder* folder : {&programs_, &kernels_, &frames_}) folder->ForgetAll();
}

absl::StatusOr<std::shared_ptr<const Record>> Store::CheckFiles(RecordFolder& folder,
                                                                std::string_view key, Lost* lost) {
  RefreshKey();
  auto record = folder.Get(key);
  if (absl::IsNotFound(record.status())) return record.status();
  // What this daemon makes under that key takes its place; until then it is the newer daemon's.
  if (absl::IsUnimplemented(record.status())) {
    return absl::NotFoundError(record.status().message());
  }
  if (absl::IsDataLoss(record.status())) {
    ++counters_.corrupt;
    folder.Remove(key);
    lost->record = true;
    return absl::NotFoundError(record.status().message());
  }
  if (!record.ok()) return absl::UnavailableError(record.status().message());
  for (const std::string& blob : (*record)->blobs) {
    const absl::Status status = blobs_.Verify(blob).status();
    if (IsGone(status)) {
      // A blob that is gone was counted with the first of the records that name it.
      if (&folder == &programs_ || absl::IsDataLoss(status)) ++counters_.corrupt;
      folder.Remove(key);
      blobs_.Remove(blob);
      *lost = {true, blob};
      return absl::NotFoundError(status.message());
    }
    if (!status.ok()) return absl::UnavailableError(status.message());
  }
  return record;
}

absl::StatusOr<std::shared_ptr<const Record>> Store::FindSound(RecordFolder& folder,
                                                               std::string_view key) {
  Lost lost;
  absl::StatusOr<std::shared_ptr<const Record>> found;
  {
    absl::MutexLock lock(&files_mutex_);
    found = CheckFiles(folder, key, &lost);
  }
  if (!lost.record) return found;
  // The files are gone, which is what counts; rows that stay are found again when the index is
  // reconciled.
  index_
      .With([&](Index& index) -> absl::Status {
        TENSORD_RETURN_IF_ERROR(&folder == &programs_  ? index.RemoveProgram(key)
                                : &folder == &kernels_ ? index.RemoveKernel(key)
                                                       : index.RemoveFrame(key));
        return lost.blob.empty() ? absl::OkStatus() : index.RemoveBlob(lost.blob);
      })
      .IgnoreError();
  return found;
}

bool Store::HasBlob(std::string_view sha256) const {
  return blobs_.Exists(sha256) || memory_.FindBlob(sha256) != nullptr;
}

std::shared_ptr<const MemoryStore::Program> Store::FindInMemory(std::string_view key) {
  auto program = memory_.FindProgram(key);
  if (program == nullptr) return nullptr;
  for (const std::string& blob : program->record.blobs) {
    if (!HasBlob(blob)) return nullptr;
  }
  return program;
}

absl::StatusOr<std::shared_ptr<const Record>> Store::Lookup(std::string_view key) {
  auto found = FindSound(programs_, key);
  if (found.ok()) {
    CountUse(key);
    return found;
  }
  if (const auto program = FindInMemory(key)) {
    return std::shared_ptr<const Record>(program, &program->record);
  }
  return found.status();
}

// A look-up only notes it: the index may be busy with an eviction.
void Store::CountUse(std::string_view key) {
  const int64_t now = options_.now_ms();
  absl::MutexLock lock(&uses_mutex_);
  Use& use = uses_[std::string(key)];
  ++use.hits;
  use.used_ms = now;
}

std::vector<Index::Touched> Store::TakeDue(Uses& uses, bool all) {
  const int64_t now = options_.now_ms();
  std::vector<Index::Touched> due;
  for (auto& [key, use] : uses) {
    if (use.used_ms == 0 || (!all && now - use.written_ms < kTouchMs)) continue;
    due.push_back({key, std::exchange(use.hits, 0), std::exchange(use.used_ms, 0)});
    use.written_ms = now;
  }
  if (uses.size() > kMaxUses) uses.clear();
  return due;
}

void Store::FlushUses(bool all) {
  std::vector<Index::Touched> programs, frames;
  {
    absl::MutexLock lock(&uses_mutex_);
    programs = TakeDue(uses_, all);
    frames = TakeDue(frame_uses_, all);
  }
  // Statistics only: what a broken index does not take is lost.
  if (!programs.empty()) {
    index_.With([&](Index& index) { return index.Touch(programs); }).IgnoreError();
  }
  if (!frames.empty()) {
    index_.With([&](Index& index) { return index.TouchFrames(frames); }).IgnoreError();
  }
}

absl::StatusOr<std::vector<FileRow>> Store::BlobRows(const Record& record) const {
  std::vector<std::string> blobs = record.blobs;
  std::sort(blobs.begin(), blobs.end());
  blobs.erase(std::unique(blobs.begin(), blobs.end()), blobs.end());
  std::vector<FileRow> rows;
  for (const std::string& blob : blobs) {
    if (!blobs_.Exists(blob)) return Evicted();
    rows.push_back({blob, BytesOnDisk(blobs_.PathOf(blob))});
  }
  return rows;
}

absl::StatusOr<Index::Program> Store::RowsOf(ProgramRow row, const Record& record) const {
  TENSORD_ASSIGN_OR_RETURN(std::vector<FileRow> blobs, BlobRows(record));
  const uint64_t record_bytes = BytesOnDisk(programs_.PathOf(row.key));
  row.bytes = record_bytes;
  for (const FileRow& blob : blobs) row.bytes += blob.bytes;
  return Index::Program{std::move(row), record_bytes, std::move(blobs)};
}

Index::Kernel Store::RowOfKernel(std::string_view kernel_key, const std::string& sha256,
                                 int64_t used_ms) const {
  return {{std::string(kernel_key), BytesOnDisk(kernels_.PathOf(kernel_key))},
          {sha256, BytesOnDisk(blobs_.PathOf(sha256))},
          used_ms};
}

absl::Status Store::Publish(std::string_view key, Record record, std::string_view detail,
                            const ProgramFacts& facts) {
  record.facts = Encode(facts);
  bool in_memory = false;
  for (const std::string& blob : record.blobs) {
    if (blobs_.Exists(blob)) continue;
    if (memory_.FindBlob(blob) == nullptr) return Evicted();
    in_memory = true;  // where its kernel is
  }
  if (!in_memory) {
    const absl::Status written = WriteProgram(key, record, detail, facts);
    if (written.ok() || absl::IsAborted(written)) return written;
    SetProblem(written);
  }
  memory_.PutProgram(key, {std::move(record), std::string(detail), facts});
  return absl::OkStatus();
}

absl::Status Store::WriteProgram(std::string_view key, const Record& record,
                                 std::string_view detail, const ProgramFacts& facts) {
  TENSORD_RETURN_IF_ERROR(
      MakeRoom(record.payload.size() + record.facts.size() + detail.size() + kFileOverhead));
  {
    absl::MutexLock lock(&files_mutex_);
    RefreshKey();
  }
  TENSORD_RETURN_IF_ERROR(BlobRows(record).status());
  TENSORD_RETURN_IF_ERROR(programs_.Put(key, record, detail));
  const int64_t now = options_.now_ms();
  const auto rows = RowsOf({std::string(key), facts, 0, 0, now, now}, record);
  absl::Status added = rows.status();
  if (rows.ok()) {
    added = index_.With([&](Index& index) {
      return index.AddProgram(*rows, [&] { return BlobRows(record).status(); });
    });
  }
  if (absl::IsAborted(added)) {
    programs_.Remove(key);
    return added;
  }
  // A record that the index could not take is added when it is reconciled, which is soon.
  if (!added.ok()) index_.Lacks();
  return absl::OkStatus();
}

Index::Drop Store::Dropping() {
  return {[this](std::string_view key) {
            programs_.Remove(key);
            ++counters_.evicted;
          },
          [this](std::string_view key) { kernels_.Remove(key); },
          [this](std::string_view sha256) { blobs_.Remove(sha256); },
          [this](std::string_view key) {
            frames_.Remove(key);
            ++counters_.frames_evicted;
          }};
}

absl::Status Store::MakeRoom(uint64_t bytes) {
  if (options_.limit_bytes == 0) return absl::OkStatus();
  const auto taken = [&]() -> absl::StatusOr<uint64_t> {
    TENSORD_ASSIGN_OR_RETURN(const Totals totals, Count());
    return totals.bytes + bytes;
  };
  // What is made while nobody can count stays in memory.
  TENSORD_ASSIGN_OR_RETURN(const uint64_t before, taken());
  if (before <= options_.limit_bytes) return absl::OkStatus();
  // Totals of before that are wrong would have everything evicted.
  if (options_.background && !totals_checked_) {
    return absl::UnavailableError("what the store holds is counted");
  }
  const Index::Drop drop = Dropping();
  // Below the limit by a tenth, so that not every publication evicts.
  const uint64_t target = options_.limit_bytes - options_.limit_bytes / 10;
  FlushUses(/*all=*/true);
  for (const int64_t keep_ms : {options_.keep_ms, kInUseMs}) {
    absl::StatusOr<uint64_t> evicted = kEvictedAtOnce;
    while (evicted.ok() && *evicted == kEvictedAtOnce) {
      const auto now_taken = taken();
      if (!now_taken.ok() || *now_taken <= options_.limit_bytes) return absl::OkStatus();
      const uint64_t other = index_.BytesOnDisk() + bytes;
      evicted = index_.With([&](Index& index) {
        return index.Evict(target - std::min(target, other), options_.now_ms() - keep_ms, drop);
      });
    }
  }
  const auto left = taken();
  if (!left.ok() || *left <= options_.limit_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "store_limit is ", options_.limit_bytes, " bytes, and all that is stored was used just now"));
}

absl::StatusOr<std::string> Store::ReadBlob(std::string_view sha256) {
  if (const auto kernel = memory_.FindBlob(sha256)) return kernel->binary;
  TENSORD_ASSIGN_OR_RETURN(std::string data, ReadFile(blobs_.PathOf(sha256)));
  if (Sha256(data) != sha256) return absl::DataLossError("blob does not have its digest");
  return data;
}

absl::StatusOr<std::vector<ProgramRow>> Store::List(uint32_t limit) {
  FlushUses(/*all=*/true);
  return index_.With([&](Index& index) { return index.List(limit); });
}

absl::StatusOr<ProgramPage> Store::Search(const ProgramQuery& query) {
  FlushUses(/*all=*/true);
  return index_.With([&](Index& index) { return index.Search(query); });
}

absl::StatusOr<ProgramRow> Store::Find(std::string_view prefix) {
  FlushUses(/*all=*/true);
  TENSORD_ASSIGN_OR_RETURN(std::vector<ProgramRow> rows,
                           index_.With([&](Index& index) { return index.Find(prefix, 2); }));
  if (rows.empty()) return absl::NotFoundError("no program has that key");
  if (rows.size() > 1) {
    return absl::FailedPreconditionError("several programs begin with that key: give more of it");
  }
  return std::move(rows.front());
}

absl::StatusOr<std::shared_ptr<const Record>> Store::ReadRecord(RecordFolder& folder,
                                                                std::string_view key) {
  absl::MutexLock lock(&files_mutex_);
  RefreshKey();
  return folder.Get(key);
}

absl::StatusOr<std::shared_ptr<const Record>> Store::Peek(std::string_view key) {
  return ReadRecord(programs_, key);
}

absl::StatusOr<std::string> Store::Detail(std::string_view key) {
  absl::MutexLock lock(&files_mutex_);
  RefreshKey();
  return programs_.GetDetail(key);
}

absl::StatusOr<std::optional<Gone>> Store::WhyGone(std::string_view key) {
  return index_.With([&](Index& index) { return index.WhyGone(key); });
}

absl::StatusOr<std::vector<ProgramRow>> Store::WithTrait(size_t place, uint64_t number,
                                                         uint32_t limit) {
  return index_.With([&](Index& index) { return index.WithTrait(place, number, limit); });
}

absl::StatusOr<bool> Store::HasWithoutTraits() {
  return index_.With([](Index& index) { return index.HasWithoutTraits(); });
}

absl::StatusOr<Totals> Store::Count() {
  TENSORD_ASSIGN_OR_RETURN(Totals totals, index_.With([](Index& index) { return index.Count(); }));
  totals.bytes += index_.BytesOnDisk();
  return totals;
}

std::string Store::DeriveKey(std::string_view purpose) {
  absl::MutexLock lock(&files_mutex_);
  return signer_->Sign({"derived key", purpose});
}

absl::Status Store::TryToWrite() const {
  return WriteFileAtomically(options_.root + "/notes/opened", "", 0600, temp_folder_);
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
  KeepNewest(folder, kMaxRepros);
  return path;
}

absl::StatusOr<std::string> Store::GetJobList(std::string_view job) {
  return ReadFile(absl::StrCat(options_.root, "/jobs/", ToHex(job)));
}

void Store::PutJobList(std::string_view job, std::string_view bytes) {
  const std::string folder = options_.root + "/jobs";
  // It helps; what the disk does not take is gathered again.
  WriteFileAtomically(absl::StrCat(folder, "/", ToHex(job)), bytes, 0600, temp_folder_)
      .IgnoreError();
  KeepNewest(folder, kMaxJobLists);
}

}  // namespace tensord::store
