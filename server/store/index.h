// SPDX-License-Identifier: Apache-2.0
// The SQLite index beside the files: sizes, last use, hits, which program uses which blob, and the
// kernel table. It decides what is evicted; the files decide what is served.
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
#include "server/store/sqlite.h"

namespace tensord::store {

// A last use is written at most this often, so a hot look-up writes nothing.
inline constexpr int64_t kTouchMs = 20'000;

// Small facts about a program, for lists. The store does not interpret them.
struct ProgramFacts {
  std::string label;
  std::string target;
  uint32_t nodes = 0;
  uint32_t kernels = 0;
  uint32_t externs = 0;
  uint64_t compile_nanoseconds = 0;
};

struct ProgramRow {
  std::string key;
  ProgramFacts facts;
  uint64_t bytes = 0;  // manifest and blobs
  uint64_t hits = 0;
  int64_t created_ms = 0;  // since the epoch
  int64_t used_ms = 0;
};

struct KernelRow {
  std::string sha256;
  uint64_t size = 0;  // bytes of the blob
  std::string facts;  // what its maker wants to know again; opaque here
};

struct Totals {
  uint64_t programs = 0;
  uint64_t bytes = 0;
};

class Index {
 public:
  // DataLoss: the file is no database, or of another form; the caller starts a new one.
  static absl::StatusOr<Index> Open(const std::string& path);

  // Adds or replaces a program. `check` runs inside the transaction and may refuse: no eviction, of
  // any process, happens between it and the commit. It also makes the manifest visible.
  absl::Status AddProgram(const ProgramRow& row, uint64_t manifest_bytes,
                          const std::vector<std::string>& blobs,
                          const std::function<absl::Status()>& check);
  absl::Status RemoveProgram(std::string_view key);
  absl::Status Touch(std::string_view key, uint64_t hits, int64_t used_ms);

  // Last used first; at most `limit`, 0: all.
  absl::StatusOr<std::vector<ProgramRow>> List(uint32_t limit);
  // Those whose key begins with `prefix`, at most `limit`.
  absl::StatusOr<std::vector<ProgramRow>> Find(std::string_view prefix, uint32_t limit);

  absl::Status AddKernel(std::string_view kernel_key, const KernelRow& kernel,
                         std::string_view source, int64_t used_ms);
  absl::StatusOr<std::optional<KernelRow>> FindKernel(std::string_view kernel_key, int64_t used_ms);
  absl::StatusOr<std::string> KernelSource(std::string_view kernel_key);
  // Forgets a blob that is gone or corrupt, and the kernels that lead to it.
  absl::Status RemoveBlob(std::string_view sha256);

  absl::StatusOr<Totals> Count();

  // Removes kernels without a program, then programs by age of last use, none used at or after
  // `keep_since_ms`, until at most `target_bytes` are left. The callbacks delete the files; they
  // run before the commit, so that an interrupted eviction leaves rows without files (found and
  // removed at the next look-up), never files without rows. Returns how many programs went.
  absl::StatusOr<uint64_t> Evict(uint64_t target_bytes, int64_t keep_since_ms,
                                 const std::function<void(std::string_view key)>& drop_manifest,
                                 const std::function<void(std::string_view sha256)>& drop_blob);

 private:
  explicit Index(Database database) : database_(std::move(database)) {}
  absl::Status DeleteProgramRows(std::string_view key);
  // Returns the bytes that went with it.
  absl::StatusOr<uint64_t> DropProgram(
      std::string_view key, int64_t keep_since_ms,
      const std::function<void(std::string_view sha256)>& drop_blob);
  absl::Status DropUnusedBlobs(int64_t keep_since_ms,
                               const std::function<void(std::string_view)>& drop_blob);

  Database database_;
};

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_INDEX_H_
