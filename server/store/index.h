// SPDX-License-Identifier: Apache-2.0
// The SQLite index beside the files: sizes, last use, hits, which program and kernel use which
// blob, and which frames are a code's. It decides what is listed and what is evicted; the signed
// files decide what is served, and a lost index is made of them again.
//
// Not locked within a process (store.h is the facade); several processes may have it open.
#ifndef TENSORD_SERVER_STORE_INDEX_H_
#define TENSORD_SERVER_STORE_INDEX_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/store/frame_facts.h"
#include "server/store/program_facts.h"
#include "server/store/sqlite.h"

namespace tensord::store {

// A last use is written at most this often, so a hot look-up writes nothing.
inline constexpr int64_t kTouchMs = 20'000;

inline constexpr uint64_t kEvictedAtOnce = 64;

struct ProgramRow {
  std::string key;
  ProgramFacts facts;
  uint64_t bytes = 0;  // of its record and blobs, on disk
  uint64_t hits = 0;
  int64_t created_ms = 0;  // since the epoch
  int64_t used_ms = 0;
};

// Which programs are listed, and in which order, falling.
struct ProgramQuery {
  uint32_t limit = 0;  // 0: all
  uint32_t skip = 0;   // so many of the first are left out
  std::string search;  // in the key's hex digits, from its beginning, or in label or target
  enum Order : uint8_t { kUsed, kHits, kBytes, kCompileTime, kCreated } order = kUsed;
};

struct ProgramPage {
  std::vector<ProgramRow> rows;
  uint64_t matching = 0;  // whatever limit and skip are
};

// What became of a program that was stored: it was evicted, or its files were damaged or deleted.
enum class Gone : uint8_t { kEvicted, kLost };

// Of so many programs that went last it is known.
inline constexpr int64_t kMostGone = 65'536;

struct FrameRow {
  std::string key;
  FrameFacts facts;    // but for `behind`, of what the index gives
  uint64_t bytes = 0;  // of its record, on disk
  uint64_t hits = 0;
  int64_t created_ms = 0;  // since the epoch
  int64_t used_ms = 0;
};

// Of one code in one environment; with one more the one that was not used for longest goes.
inline constexpr size_t kMaxFramesOfCode = 64;

struct Totals {
  uint64_t programs = 0;
  uint64_t frames = 0;
  uint64_t frame_bytes = 0;
  uint64_t bytes = 0;  // of all, frames included
};

// A file and what it takes on disk.
struct FileRow {
  std::string name;  // a key or a digest
  uint64_t bytes = 0;
};

class Index {
 public:
  // DataLoss: the file is no database. One of an older form is emptied; *empty says that it holds
  // nothing.
  static absl::StatusOr<Index> Open(const std::string& path, bool* empty);

  struct Program {
    ProgramRow row;
    uint64_t record_bytes = 0;
    std::vector<FileRow> blobs;
  };
  // Adds or replaces a program. `check` runs inside the transaction and may refuse: no eviction, of
  // any process, happens between it and the commit.
  absl::Status AddProgram(const Program& program, const std::function<absl::Status()>& check);
  // Those that `check` takes, in one transaction.
  absl::Status AddPrograms(const std::vector<Program>& programs,
                           const std::function<bool(const Program& program)>& check);
  absl::Status RemoveProgram(std::string_view key);
  // Adds uses of programs, in one transaction.
  struct Touched {
    std::string key;
    uint64_t hits = 0;
    int64_t used_ms = 0;
  };
  absl::Status Touch(const std::vector<Touched>& programs);
  absl::StatusOr<bool> HasProgram(std::string_view key);

  // What became of the program of that key; nothing: as far as is known there was none. One that is
  // listed, too, counts as lost: who asks has found no record.
  absl::StatusOr<std::optional<Gone>> WhyGone(std::string_view key);
  // Programs that have the number at that place of ProgramTraits::numbers, those made last first.
  // Without the numbers themselves.
  absl::StatusOr<std::vector<ProgramRow>> WithTrait(size_t place, uint64_t number, uint32_t limit);
  // Whether there are programs of which no traits are known.
  absl::StatusOr<bool> HasWithoutTraits();

  // At most `limit` keys of programs that come after `after`, in order.
  absl::StatusOr<std::vector<std::string>> KeysAfter(std::string_view after, uint32_t limit);
  // Last used first; at most `limit`, 0: all.
  absl::StatusOr<std::vector<ProgramRow>> List(uint32_t limit);
  absl::StatusOr<ProgramPage> Search(const ProgramQuery& query);
  // Those whose key begins with `prefix`, at most `limit`.
  absl::StatusOr<std::vector<ProgramRow>> Find(std::string_view prefix, uint32_t limit);

  struct Kernel {
    FileRow kernel;
    FileRow blob;
    int64_t used_ms = 0;
  };
  // Adds or replaces kernels, in one transaction.
  absl::Status AddKernels(const std::vector<Kernel>& kernels);
  absl::Status RemoveKernel(std::string_view kernel_key);
  absl::Status TouchKernel(std::string_view kernel_key, int64_t used_ms);
  absl::StatusOr<bool> HasKernel(std::string_view kernel_key);
  absl::StatusOr<bool> HasBlob(std::string_view sha256);
  // Forgets a blob that is gone or corrupt, and the kernels that lead to it.
  absl::Status RemoveBlob(std::string_view sha256);

  // Keeps no count of its own: a row that every change of the tables changes too.
  absl::StatusOr<Totals> Count();
  // Reads every row, until `stops` says otherwise. DataLoss: that row says something else than all
  // others together.
  absl::Status CheckTotals(const std::function<bool()>& stops);

  // Deletes files, a record before its blobs; called before the commit, so that an interrupted
  // eviction leaves rows without files, never files without rows.
  struct Drop {
    std::function<void(std::string_view key)> program;
    std::function<void(std::string_view kernel_key)> kernel;
    std::function<void(std::string_view sha256)> blob;
    std::function<void(std::string_view key)> frame;
  };
  // Removes kernels without a program, then programs and frames by age of last use, none used at or
  // after `keep_since_ms`, until at most `target_bytes` are left or kEvictedAtOnce went: others
  // want the index in between. Returns how many went. What that costs grows with them, not with
  // what is stored.
  absl::StatusOr<uint64_t> Evict(uint64_t target_bytes, int64_t keep_since_ms, const Drop& drop);

  // What its statements have cost so far, in steps of SQLite's machine.
  uint64_t Work() const { return database_.Work(); }

  // Frames (index_frames.cc).

  // Adds frames, or says anew of ones that are there whom they are behind, in one transaction. Of
  // more than kMaxFramesOfCode the ones that were not used for longest go.
  absl::Status AddFrames(const std::vector<FrameRow>& frames, const Drop& drop);
  absl::Status RemoveFrame(std::string_view key);
  absl::Status TouchFrames(const std::vector<Touched>& frames);
  absl::StatusOr<bool> HasFrame(std::string_view key);
  // At most `limit` keys of frames that come after `after`, in order.
  absl::StatusOr<std::vector<std::string>> FrameKeysAfter(std::string_view after, uint32_t limit);
  // Last used first.
  absl::StatusOr<std::vector<FrameRow>> FramesOf(std::string_view code,
                                                 std::string_view environment);
  // Digests of codes of which a frame was put behind `code`, at most `limit`, oldest first.
  absl::StatusOr<std::vector<std::string>> CodesBehind(std::string_view code,
                                                       std::string_view environment,
                                                       uint32_t limit);
  // Last used first; at most `limit`, 0: all.
  absl::StatusOr<std::vector<FrameRow>> ListFrames(uint32_t limit);
  // Those whose key begins with `prefix`, at most `limit`.
  absl::StatusOr<std::vector<FrameRow>> FindFrames(std::string_view prefix, uint32_t limit);

 private:
  explicit Index(Database database) : database_(std::move(database)) {}
  absl::Status InsertProgram(const Program& program);
  absl::Status DeleteProgramRows(std::string_view key);
  absl::Status NoteGone(std::string_view key, Gone why);
  absl::Status AddBlob(const FileRow& blob);
  absl::StatusOr<bool> Has(const char* sql, std::string_view name);
  // `sql` takes hits, used_ms and key.
  absl::Status TouchRows(const char* sql, const std::vector<Touched>& rows);
  // `sql` takes `after` and `limit`.
  absl::StatusOr<std::vector<std::string>> NamesAfter(const char* sql, std::string_view after,
                                                      uint32_t limit);
  // 0: all.
  static int64_t SqlLimit(uint32_t limit) { return limit == 0 ? -1 : static_cast<int64_t>(limit); }
  absl::StatusOr<std::vector<std::string>> Names(Query query);
  absl::Status DropProgram(std::string_view key, int64_t keep_since_ms, const Drop& drop);
  // The blob and its kernels, unless a program uses it or a kernel was used lately; whether it
  // went.
  absl::StatusOr<bool> DropBlobIfUnused(std::string_view sha256, int64_t keep_since_ms,
                                        const Drop& drop);
  // A blob that no program uses, with its kernels; false: none that was not used lately.
  absl::StatusOr<bool> DropUnusedBlob(int64_t keep_since_ms, const Drop& drop);
  // The program or frame that was not used for longest; false: none.
  absl::StatusOr<bool> DropOldest(int64_t keep_since_ms, const Drop& drop);
  absl::Status InsertFrame(const FrameRow& row);
  absl::Status DeleteFrameRows(std::string_view key);
  absl::Status DropFramesBeyondMost(const FrameFacts& facts, const Drop& drop);

  Database database_;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_INDEX_H_
