// SPDX-License-Identifier: Apache-2.0
// The store: compiled programs and their kernels in one folder, shared by every daemon of a user.
//
//   <root>/blobs/ab/<sha256>      binaries, content-addressed, mode 0444
//   <root>/manifests/ab/<key>     one signed file per program
//   <root>/index.sqlite           sizes, last use, kernel table
//   <root>/key                    signs the manifests, mode 0600
//   <root>/repros/                graphs on which the compiler failed
//
// Keys, payloads and sources are opaque bytes here. Every function may be called from several
// threads; lock order: files_mutex_ before index_mutex_. Several processes may use one root.
#ifndef TENSORD_SERVER_STORE_STORE_H_
#define TENSORD_SERVER_STORE_STORE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"
#include "server/store/index.h"
#include "server/store/manifests.h"

namespace tensord::store {

struct StoreOptions {
  std::string root;
  uint64_t limit_bytes = 20ULL << 30;  // manifests and blobs; 0: no limit
  int64_t keep_ms = 60'000;            // programs used since then are never evicted
  std::function<int64_t()> now_ms;     // since the epoch; the system's clock when empty
};

struct StoreCounters {
  std::atomic<uint64_t> corrupt{0};  // blobs and manifests found damaged or missing, and removed
  std::atomic<uint64_t> evicted{0};  // programs
};

class Store {
 public:
  // Makes the folders (mode 0700). An error says which path is at fault: not writable, another
  // user's, of a newer daemon. A damaged index is set aside and the store starts empty.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  ~Store();

  const std::string& root() const { return options_.root; }
  const std::string& blob_folder() const { return blobs_.folder(); }
  uint64_t limit_bytes() const { return options_.limit_bytes; }
  const StoreCounters& counters() const { return counters_; }

  // The program, with every blob present and sound; counts as a use. NotFound otherwise: one that
  // was damaged has then been removed and counted.
  absl::StatusOr<std::shared_ptr<const Manifest>> Lookup(std::string_view key);
  // Publishes a program. Aborted: a blob has been evicted meanwhile; make the kernels again.
  absl::Status Publish(std::string_view key, const Manifest& manifest, std::string_view detail,
                       const ProgramFacts& facts);

  // A kernel with a sound blob; counts as a use.
  std::optional<KernelRow> FindKernel(std::string_view kernel_key);
  // Stores a kernel's binary, what its maker wants to know of it again and, for people, its source.
  absl::StatusOr<KernelRow> PutKernel(std::string_view kernel_key, std::string_view binary,
                                      std::string_view source, std::string_view facts = "");
  absl::StatusOr<std::string> KernelSource(std::string_view kernel_key);
  // NotFound, or DataLoss when it does not have its digest.
  absl::StatusOr<std::string> ReadBlob(std::string_view sha256);

  absl::StatusOr<std::vector<ProgramRow>> List(uint32_t limit);
  // NotFound: none. FailedPrecondition: several programs begin with `prefix`.
  absl::StatusOr<ProgramRow> Find(std::string_view prefix);
  absl::StatusOr<std::shared_ptr<const Manifest>> Peek(std::string_view key);
  absl::StatusOr<std::string> Detail(std::string_view key);
  absl::StatusOr<Totals> Count();

  // Small values that outlive the daemon: facts about the worker. Empty: none.
  std::string GetNote(const std::string& name);
  void PutNote(const std::string& name, std::string_view value);

  // Keeps a failing input under repros/, the newest 32 of them. Returns its path.
  absl::StatusOr<std::string> KeepRepro(const std::string& name, std::string_view bytes);

 private:
  struct Use {
    uint64_t hits = 0;       // not yet in the index
    int64_t written_ms = 0;  // last use as the index has it
    int64_t used_ms = 0;
  };

  Store(StoreOptions options, Signer signer, Index index);

  void CountUse(std::string_view key);
  void FlushUses() ABSL_EXCLUSIVE_LOCKS_REQUIRED(index_mutex_);
  void RemoveDamaged(std::string_view key, std::string_view blob)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  void EvictIfFull();

  const StoreOptions options_;
  const std::string temp_folder_;
  StoreCounters counters_;

  // Guards what the two folders remember. Their const functions, writing files among them, touch
  // only the file system and need no lock: a look-up never waits for somebody's fsync.
  absl::Mutex files_mutex_ ABSL_ACQUIRED_BEFORE(index_mutex_);
  BlobFolder blobs_;
  ManifestFolder manifests_;

  absl::Mutex index_mutex_;
  Index index_ ABSL_GUARDED_BY(index_mutex_);
  std::unordered_map<std::string, Use> uses_ ABSL_GUARDED_BY(index_mutex_);
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_STORE_H_
