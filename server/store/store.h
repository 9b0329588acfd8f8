// SPDX-License-Identifier: Apache-2.0
// The store: compiled programs, their kernels, and frames in one folder, shared by every daemon of
// a user.
//
//   <root>/blobs/ab/<sha256>      binaries, content-addressed, mode 0444
//   <root>/manifests/ab/<key>     one signed record per program
//   <root>/kernels/ab/<key>       one signed record per kernel, with its source
//   <root>/frames/ab/<key>        one signed record per frame
//   <root>/index.sqlite           sizes and last use: what to list and to evict; whose a frame is
//   <root>/key                    signs the records, mode 0600
//   <root>/repros/                graphs on which the compiler failed
//   <root>/jobs/<sha256>          what a job used; helps, and is not signed
//
// What is served is signed, or has the digest that something signed names. The index is only a
// cache of it: one that is damaged, at whatever time, is set aside and made anew from the records.
// What the disk does not take (full, failing) is served from memory and written later.
//
// Keys, payloads and sources are opaque bytes here. Every function may be called from several
// threads. Several processes may use one root.
#ifndef TENSORD_SERVER_STORE_STORE_H_
#define TENSORD_SERVER_STORE_STORE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "server/store/blobs.h"
#include "server/store/index.h"
#include "server/store/memory_store.h"
#include "server/store/records.h"
#include "server/store/shared_index.h"
#include "server/store/signer.h"

namespace tensord::store {

struct StoreOptions {
  std::string root;
  uint64_t limit_bytes = 20ULL << 30;  // of records, blobs and index on disk; 0: no limit
  int64_t keep_ms = 60'000;            // programs used since then go only when nothing else is left
  std::function<int64_t()> now_ms;     // since the epoch; the system's clock when empty
  // Told in a line of text when the index is made anew, and when the disk takes nothing.
  std::function<void(const std::string&)> warn;
  // Reconciles the index with the files after opening, and writes what was kept in memory. Off:
  // Reconcile() and WriteBack() do it when they are called.
  bool background = false;
};

// What a store was found to hold.
struct Verification {
  uint64_t programs = 0;  // sound, as are the others
  uint64_t kernels = 0;
  uint64_t frames = 0;
  uint64_t blobs = 0;
  uint64_t damaged = 0;     // records and blobs; removed
  uint64_t unreadable = 0;  // for the machine's reasons; left alone
};

struct StoreCounters {
  std::atomic<uint64_t> corrupt{0};  // blobs and records found damaged or missing, and removed
  std::atomic<uint64_t> evicted{0};  // programs
  std::atomic<uint64_t> frames_evicted{0};
};

// A frame as it is served.
struct FoundFrame {
  FrameRow row;
  std::shared_ptr<const Record> record;  // its payload is what was put
};

class Store {
 public:
  // Makes the folders (mode 0700). An error says which path is at fault: not writable, another
  // user's, of a newer daemon. A store on a full disk opens, and serves what it has. Tries for 0.3
  // s where the machine's trouble may pass.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  ~Store();

  const std::string& root() const { return options_.root; }
  const std::string& blob_folder() const { return blobs_.folder(); }
  uint64_t limit_bytes() const { return options_.limit_bytes; }
  const StoreCounters& counters() const { return counters_; }

  // The program, with every blob present and sound; counts as a use. NotFound otherwise: one that
  // was damaged has then been removed and counted. Unavailable: the machine (no descriptors, no
  // memory, a failing disk) kept it from being read, and nothing was removed.
  absl::StatusOr<std::shared_ptr<const Record>> Lookup(std::string_view key);
  // Publishes a program, on disk or else in memory. The record's facts are `facts`. Aborted: a blob
  // has been evicted meanwhile; make the kernels again.
  absl::Status Publish(std::string_view key, Record record, std::string_view detail,
                       const ProgramFacts& facts);

  // A kernel with a sound blob; counts as a use.
  std::optional<KernelRow> FindKernel(std::string_view kernel_key);
  // Stores a kernel's binary, what its maker wants to know of it again and, for people, its source;
  // on disk or else in memory.
  KernelRow PutKernel(std::string_view kernel_key, std::string_view binary, std::string_view source,
                      std::string_view facts = "");
  absl::StatusOr<std::string> KernelSource(std::string_view kernel_key);
  // NotFound, or DataLoss when it does not have its digest.
  absl::StatusOr<std::string> ReadBlob(std::string_view sha256);

  absl::StatusOr<std::vector<ProgramRow>> List(uint32_t limit);
  absl::StatusOr<ProgramPage> Search(const ProgramQuery& query);
  // NotFound: none. FailedPrecondition: several programs begin with `prefix`.
  absl::StatusOr<ProgramRow> Find(std::string_view prefix);
  absl::StatusOr<std::shared_ptr<const Record>> Peek(std::string_view key);
  absl::StatusOr<std::string> Detail(std::string_view key);
  // What the index says of a program that is not stored, of those like another one, and whether
  // there are some of which it is not known (index.h).
  absl::StatusOr<std::optional<Gone>> WhyGone(std::string_view key);
  absl::StatusOr<std::vector<ProgramRow>> WithTrait(size_t place, uint64_t number, uint32_t limit);
  absl::StatusOr<bool> HasWithoutTraits();
  // Programs, frames, and bytes on disk of records, blobs and index.
  absl::StatusOr<Totals> Count();
  // Why programs are kept in memory; empty: they are not.
  std::string problem();

  // Frames (store_frames.cc).

  // Keeps a frame, on disk or else in memory; counts as a use. Of one that is stored it only adds
  // whom it is behind, as far as it is not known, and the row of the index if that is missing.
  absl::Status PutFrame(std::string_view key, std::string_view frame, FrameFacts facts);
  // Sound frames of a code, those that were used last first, but for those that are `known`. Behind
  // the one with which they have more than `most_bytes` no other is read. Counts no use.
  std::vector<FoundFrame> FramesOf(std::string_view code, std::string_view environment,
                                   const std::set<std::string>& known,
                                   uint64_t most_bytes = UINT64_MAX);
  // Codes that were entered behind this one, and those behind them, nearest first; at most `limit`.
  std::vector<std::string> CodesBehind(std::string_view code, std::string_view environment,
                                       size_t limit);
  // Those that were used last first, also those that are kept in memory.
  absl::StatusOr<std::vector<FrameRow>> ListFrames(uint32_t limit);
  // NotFound: none. FailedPrecondition: several frames begin with `prefix`.
  absl::StatusOr<FrameRow> FindFrame(std::string_view prefix);
  absl::StatusOr<std::shared_ptr<const Record>> PeekFrame(std::string_view key);
  // Of a frame that has served so often, or has been put again (`hits` 0). Being given to a job is
  // no use: the order by use would be that of giving. False: it is neither in the index nor in
  // memory, and nothing is counted.
  bool CountFrameUse(std::string_view key, uint64_t hits);

  // Makes the index agree with the files: adds the records that it does not know, forgets those
  // that are gone, and removes old blobs that no record names. Ends early when the store is closed.
  void Reconcile();
  // Reads every record and blob anew, and removes what is damaged.
  Verification Verify();
  // Sets the index aside and makes it of the records.
  absl::Status RebuildIndex();
  // Writes what is kept in memory, as far as the disk takes it.
  void WriteBack();

  // A key made of the store's own for another purpose; 32 bytes.
  std::string DeriveKey(std::string_view purpose);

  // Small values that outlive the daemon: facts about the worker. Empty: none.
  std::string GetNote(const std::string& name);
  void PutNote(const std::string& name, std::string_view value);

  // What a job used, by the digest of its name; the 256 that were written last stay. Nothing is
  // served by it. NotFound: nothing. Other statuses: the disk's.
  absl::StatusOr<std::string> GetJobList(std::string_view job);
  void PutJobList(std::string_view job, std::string_view bytes);

  // Keeps a failing input under repros/, the newest 32 of them. Returns its path.
  absl::StatusOr<std::string> KeepRepro(const std::string& name, std::string_view bytes);

 private:
  struct Use {
    uint64_t hits = 0;       // not yet in the index
    int64_t written_ms = 0;  // when the index was told last
    int64_t used_ms = 0;
  };

  Store(StoreOptions options, std::unique_ptr<Signer> signer);
  static absl::StatusOr<std::unique_ptr<Store>> TryToOpen(StoreOptions options);

  // The record, when its signature and all of its blobs are sound; what is damaged is removed.
  absl::StatusOr<std::shared_ptr<const Record>> FindSound(RecordFolder& folder,
                                                          std::string_view key);
  // With its files; `lost`: a record went, and maybe a blob with it, whose rows are to go too.
  struct Lost {
    bool record = false;
    std::string blob;
  };
  absl::StatusOr<std::shared_ptr<const Record>> CheckFiles(RecordFolder& folder,
                                                           std::string_view key, Lost* lost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  void RefreshKey() ABSL_EXCLUSIVE_LOCKS_REQUIRED(files_mutex_);
  std::shared_ptr<const MemoryStore::Program> FindInMemory(std::string_view key);
  bool HasBlob(std::string_view sha256) const;

  absl::Status WriteKernel(std::string_view kernel_key, const KernelRow& row,
                           std::string_view binary, std::string_view source);
  absl::Status WriteProgram(std::string_view key, const Record& record, std::string_view detail,
                            const ProgramFacts& facts);
  absl::Status WriteFrame(FrameRow row, const Record& record);
  void SortByUse(std::vector<FoundFrame>& frames);
  // Whether FramesOf finds it, which a damaged row of another code hides; true also where the index
  // cannot say.
  bool IsFrameFound(std::string_view key, const FrameFacts& facts);
  // As CountFrameUse, of one that is known to be there.
  void NoteFrameUse(std::string_view key, uint64_t hits);
  // Those in memory that `wants` holds of and `taken` has not; it has their keys then.
  std::vector<FoundFrame> FramesInMemory(const std::function<bool(const FrameRow&)>& wants,
                                         std::set<std::string>* taken);
  void SetProblem(const absl::Status& status);

  // The blobs of a record as rows; Aborted: one is not on disk.
  absl::StatusOr<std::vector<FileRow>> BlobRows(const Record& record) const;
  // As the index is to have them. Aborted: a blob is not on disk.
  absl::StatusOr<Index::Program> RowsOf(ProgramRow row, const Record& record) const;
  Index::Kernel RowOfKernel(std::string_view kernel_key, const std::string& sha256,
                            int64_t used_ms) const;
  // What the folder has under the key, without a look at its blobs.
  absl::StatusOr<std::shared_ptr<const Record>> ReadRecord(RecordFolder& folder,
                                                           std::string_view key);
  // Shows whether the folder can be written.
  absl::Status TryToWrite() const;
  // What the index is to have of a record that it does not know. Nothing: it cannot be read now, or
  // is none, and is removed.
  std::optional<Index::Program> ReadProgramRow(const std::string& key);
  std::optional<Index::Kernel> ReadKernelRow(const std::string& kernel_key);
  std::optional<FrameRow> ReadFrameRow(const std::string& key);
  // Gives `add` the rows that `read` makes of keys which the index has not, many at once and in
  // their order: neighbours lie in the same pages of the index. Several threads read.
  template <class Read, class Add>
  void AddUnknown(const RecordFolder& folder,
                  absl::StatusOr<bool> (Index::*has)(std::string_view key), Read read, Add add);
  absl::Status AddProgramRows(Index& index, const std::vector<Index::Program>& rows);
  // Rows of records that are gone.
  using Keys = absl::StatusOr<std::vector<std::string>>;
  void ForgetLost(const RecordFolder& folder,
                  Keys (Index::*keys_after)(std::string_view after, uint32_t limit),
                  absl::Status (Index::*remove)(std::string_view key));
  void RemoveStrayBlobs();
  // Takes off the digests that a record names; false: not all records could be read.
  bool TakeNamedBlobs(std::set<std::string>* digests);

  void CountUse(std::string_view key);
  using Uses = std::unordered_map<std::string, Use>;
  std::vector<Index::Touched> TakeDue(Uses& uses, bool all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(uses_mutex_);
  // Deletes the files of what the index drops, and counts it.
  Index::Drop Dropping();
  // Writes uses into the index: all of them, or those that were written long ago.
  void FlushUses(bool all);
  // Evicts until `bytes` more fit. ResourceExhausted: they do not.
  absl::Status MakeRoom(uint64_t bytes);
  bool IsClosing();
  void RunInBackground();

  const StoreOptions options_;
  const std::string temp_folder_;
  StoreCounters counters_;
  MemoryStore memory_;

  // Guards what the folders remember. Their const functions, writing files among them, need no
  // lock: a look-up never waits for somebody's fsync, nor for the index.
  absl::Mutex files_mutex_;
  const std::unique_ptr<Signer> signer_;  // of all records
  BlobFolder blobs_;
  RecordFolder programs_;
  RecordFolder kernels_;
  RecordFolder frames_;

  SharedIndex index_;

  absl::Mutex put_mutex_;  // of frames; before all others

  absl::Mutex uses_mutex_;
  Uses uses_ ABSL_GUARDED_BY(uses_mutex_);
  Uses frame_uses_ ABSL_GUARDED_BY(uses_mutex_);

  absl::Mutex state_mutex_;
  bool closing_ ABSL_GUARDED_BY(state_mutex_) = false;
  std::string problem_ ABSL_GUARDED_BY(state_mutex_);
  std::atomic<bool> totals_checked_{false};  // by the first Reconcile()
  std::thread background_;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_STORE_H_
