// SPDX-License-Identifier: Apache-2.0
#include "server/store/index.h"

#include <absl/strings/str_cat.h>

#include "base/version.h"
#include "server/store/program_columns.h"

namespace tensord::store {
namespace {

// What the tables held in another form is made of the files again.
// `trait0` to `trait4` are ProgramTraits::numbers, null where they are not known.
constexpr char kSchema[] = R"(
DROP TABLE IF EXISTS programs;
DROP TABLE IF EXISTS gone;
DROP TABLE IF EXISTS program_blobs;
DROP TABLE IF EXISTS kernels;
DROP TABLE IF EXISTS blobs;
DROP TABLE IF EXISTS frames;
DROP TABLE IF EXISTS frame_behind;
DROP TABLE IF EXISTS totals;
DROP TABLE IF EXISTS unused_blobs;
CREATE TABLE programs(
  key BLOB PRIMARY KEY, label TEXT, target TEXT, nodes INT, kernels INT, externs INT,
  compile_ns INT, record_bytes INT, bytes INT, hits INT, created_ms INT, used_ms INT,
  trait0 INT, trait1 INT, trait2 INT, trait3 INT, trait4 INT, compared BLOB
) WITHOUT ROWID;
CREATE INDEX programs_used ON programs(used_ms);
CREATE INDEX programs_trait0 ON programs(trait0, created_ms);
CREATE INDEX programs_trait1 ON programs(trait1, created_ms);
CREATE INDEX programs_trait2 ON programs(trait2, created_ms);
CREATE INDEX programs_trait3 ON programs(trait3, created_ms);
CREATE INDEX programs_trait4 ON programs(trait4, created_ms);
CREATE TABLE gone(number INTEGER PRIMARY KEY, key BLOB UNIQUE, why INT);
CREATE TABLE program_blobs(key BLOB, sha256 BLOB, PRIMARY KEY(key, sha256)) WITHOUT ROWID;
CREATE INDEX program_blobs_sha256 ON program_blobs(sha256);
CREATE TABLE kernels(
  kernel_key BLOB PRIMARY KEY, sha256 BLOB, record_bytes INT, used_ms INT) WITHOUT ROWID;
CREATE INDEX kernels_sha256 ON kernels(sha256);
CREATE TABLE blobs(sha256 BLOB PRIMARY KEY, bytes INT) WITHOUT ROWID;
CREATE TABLE frames(
  key BLOB PRIMARY KEY, code BLOB, environment BLOB, module TEXT, name TEXT, guards INT,
  graphs INT, inlined INT, record_bytes INT, hits INT, created_ms INT, used_ms INT
) WITHOUT ROWID;
CREATE INDEX frames_code ON frames(code, environment);
CREATE INDEX frames_used ON frames(used_ms);
CREATE TABLE frame_behind(behind BLOB, key BLOB, PRIMARY KEY(behind, key)) WITHOUT ROWID;
CREATE INDEX frame_behind_key ON frame_behind(key);
CREATE TABLE totals(programs INT, frames INT, frame_bytes INT, bytes INT);
INSERT INTO totals VALUES(0, 0, 0, 0);
CREATE TRIGGER program_added AFTER INSERT ON programs BEGIN
  UPDATE totals SET programs=programs+1, bytes=bytes+NEW.record_bytes; END;
CREATE TRIGGER program_removed AFTER DELETE ON programs BEGIN
  UPDATE totals SET programs=programs-1, bytes=bytes-OLD.record_bytes; END;
CREATE TRIGGER kernel_added AFTER INSERT ON kernels BEGIN
  UPDATE totals SET bytes=bytes+NEW.record_bytes; END;
CREATE TRIGGER kernel_removed AFTER DELETE ON kernels BEGIN
  UPDATE totals SET bytes=bytes-OLD.record_bytes; END;
CREATE TRIGGER blob_added AFTER INSERT ON blobs BEGIN
  UPDATE totals SET bytes=bytes+NEW.bytes; END;
CREATE TRIGGER blob_removed AFTER DELETE ON blobs BEGIN
  UPDATE totals SET bytes=bytes-OLD.bytes; END;
CREATE TRIGGER frame_added AFTER INSERT ON frames BEGIN
  UPDATE totals SET frames=frames+1, frame_bytes=frame_bytes+NEW.record_bytes,
    bytes=bytes+NEW.record_bytes; END;
CREATE TRIGGER frame_changed AFTER UPDATE OF record_bytes ON frames BEGIN
  UPDATE totals SET frame_bytes=frame_bytes+NEW.record_bytes-OLD.record_bytes,
    bytes=bytes+NEW.record_bytes-OLD.record_bytes; END;
CREATE TRIGGER frame_removed AFTER DELETE ON frames BEGIN
  UPDATE totals SET frames=frames-1, frame_bytes=frame_bytes-OLD.record_bytes,
    bytes=bytes-OLD.record_bytes; END;
)";

// Blobs that no program uses, so that evictions need not look for them among all. `look_ms`: one
// of a kernel that was used then stays as long as that is lately. Also for the tables of a daemon
// that did not have it: the triggers see to what such a one changes.
constexpr char kUnusedBlobs[] = R"(
CREATE TABLE unused_blobs(sha256 BLOB PRIMARY KEY, look_ms INT) WITHOUT ROWID;
CREATE INDEX unused_blobs_look ON unused_blobs(look_ms);
CREATE TRIGGER unused_blob_added AFTER INSERT ON blobs
  WHEN NOT EXISTS (SELECT 1 FROM program_blobs WHERE sha256=NEW.sha256) BEGIN
  INSERT OR IGNORE INTO unused_blobs VALUES(NEW.sha256, 0); END;
CREATE TRIGGER unused_blob_removed AFTER DELETE ON blobs BEGIN
  DELETE FROM unused_blobs WHERE sha256=OLD.sha256; END;
CREATE TRIGGER blob_used AFTER INSERT ON program_blobs BEGIN
  DELETE FROM unused_blobs WHERE sha256=NEW.sha256; END;
CREATE TRIGGER blob_left AFTER DELETE ON program_blobs
  WHEN NOT EXISTS (SELECT 1 FROM program_blobs WHERE sha256=OLD.sha256)
  AND EXISTS (SELECT 1 FROM blobs WHERE sha256=OLD.sha256) BEGIN
  INSERT OR IGNORE INTO unused_blobs VALUES(OLD.sha256, 0); END;
INSERT INTO unused_blobs SELECT sha256, 0 FROM blobs
  WHERE NOT EXISTS (SELECT 1 FROM program_blobs AS p WHERE p.sha256=blobs.sha256);
)";

// Of the text ?1. Hex digits of SQLite's are capitals, and labels and targets are ours.
#define TENSORD_PROGRAM_MATCHES \
  "(instr(hex(key),upper(?1))=1 OR instr(lower(label),lower(?1)) OR instr(target,lower(?1)))"

// While many rows are added: in other orders than their keys' they lie all over the file, whose
// pages would be read, logged and written back for a few rows each.
class ManyPages {
 public:
  ManyPages(Database& database, size_t rows) : database_(rows < kMany ? nullptr : &database) {
    if (database_ == nullptr) return;
    database_->Execute("PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=16384").IgnoreError();
  }
  ~ManyPages() {
    if (database_ == nullptr) return;
    database_->Execute(kUsualPages).IgnoreError();
    database_->Execute("PRAGMA shrink_memory").IgnoreError();
  }
  ManyPages(const ManyPages&) = delete;
  ManyPages& operator=(const ManyPages&) = delete;

 private:
  static constexpr size_t kMany = 1024;
  Database* const database_;
};

absl::StatusOr<int64_t> FormOf(Database& database) {
  Query query = database.Prepare("PRAGMA user_version");
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  return there ? query.Int(0) : 0;
}

absl::StatusOr<bool> HasUnusedBlobs(Database& database) {
  return database.Prepare("SELECT 1 FROM sqlite_schema WHERE name='unused_blobs'").Step();
}

absl::Status AddUnusedBlobs(Database& database) {
  TENSORD_ASSIGN_OR_RETURN(const bool there, HasUnusedBlobs(database));
  if (there) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  TENSORD_ASSIGN_OR_RETURN(const bool another_was_first, HasUnusedBlobs(database));
  if (!another_was_first) TENSORD_RETURN_IF_ERROR(database.Execute(kUnusedBlobs));
  return transaction.Commit();
}

}  // namespace

absl::StatusOr<Index> Index::Open(const std::string& path, bool* empty) {
  *empty = false;
  TENSORD_ASSIGN_OR_RETURN(Database database, Database::Open(path));
  TENSORD_ASSIGN_OR_RETURN(int64_t form, FormOf(database));
  if (form > kStoreForm) {
    return absl::FailedPreconditionError(
        absl::StrCat("the index ", path, " was written by a newer daemon (form ", form, ")"));
  }
  if (form < kStoreForm) {
    TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
    TENSORD_ASSIGN_OR_RETURN(form, FormOf(database));  // another daemon may have been first
    if (form < kStoreForm) {
      const std::string sql = absl::StrCat(kSchema, "PRAGMA user_version=", kStoreForm);
      TENSORD_RETURN_IF_ERROR(database.Execute(sql.c_str()));
      *empty = true;
    }
    TENSORD_RETURN_IF_ERROR(transaction.Commit());
  }
  TENSORD_RETURN_IF_ERROR(AddUnusedBlobs(database));
  return Index(std::move(database));
}

absl::Status Index::AddProgram(const Program& program, const std::function<absl::Status()>& check) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(check());
  TENSORD_RETURN_IF_ERROR(InsertProgram(program));
  return transaction.Commit();
}

absl::Status Index::AddPrograms(const std::vector<Program>& programs,
                                const std::function<bool(const Program& program)>& check) {
  const ManyPages pages(database_, programs.size());
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  for (const Program& program : programs) {
    if (check(program)) TENSORD_RETURN_IF_ERROR(InsertProgram(program));
  }
  return transaction.Commit();
}

absl::Status Index::InsertProgram(const Program& program) {
  const ProgramRow& row = program.row;
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(row.key));
  Query insert = database_.Prepare("INSERT INTO programs(" TENSORD_PROGRAM_COLUMNS
                                   ",record_bytes,trait0,trait1,trait2,trait3,trait4) "
                                   "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.BindBlob(row.key)
      .BindText(row.facts.label)
      .BindText(row.facts.target)
      .Bind(row.facts.nodes)
      .Bind(row.facts.kernels)
      .Bind(row.facts.externs)
      .Bind(static_cast<int64_t>(row.facts.compile_nanoseconds))
      .Bind(static_cast<int64_t>(row.bytes))
      .Bind(static_cast<int64_t>(row.hits))
      .Bind(row.created_ms)
      .Bind(row.used_ms)
      .BindBlob(row.facts.traits.compared)
      .Bind(static_cast<int64_t>(program.record_bytes));
  const bool known = !row.facts.traits.compared.empty();
  for (const uint64_t number : row.facts.traits.numbers) {
    known ? insert.Bind(static_cast<int64_t>(number)) : insert.BindNull();
  }
  TENSORD_RETURN_IF_ERROR(insert.Run());
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM gone WHERE key=?").BindBlob(row.key).Run());
  for (const FileRow& blob : program.blobs) {
    TENSORD_RETURN_IF_ERROR(AddBlob(blob));
    TENSORD_RETURN_IF_ERROR(
        database_.Prepare("INSERT OR IGNORE INTO program_blobs(key,sha256) VALUES(?,?)")
            .BindBlob(row.key)
            .BindBlob(blob.name)
            .Run());
  }
  return absl::OkStatus();
}

absl::Status Index::DeleteProgramRows(std::string_view key) {
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM program_blobs WHERE key=?").BindBlob(key).Run());
  return database_.Prepare("DELETE FROM programs WHERE key=?").BindBlob(key).Run();
}

absl::Status Index::RemoveProgram(std::string_view key) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(key));
  TENSORD_RETURN_IF_ERROR(NoteGone(key, Gone::kLost));
  return transaction.Commit();
}

absl::Status Index::TouchRows(const char* sql, const std::vector<Touched>& rows) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  for (const Touched& row : rows) {
    TENSORD_RETURN_IF_ERROR(database_.Prepare(sql)
                                .Bind(static_cast<int64_t>(row.hits))
                                .Bind(row.used_ms)
                                .BindBlob(row.key)
                                .Run());
  }
  return transaction.Commit();
}
absl::Status Index::Touch(const std::vector<Touched>& programs) {
  return TouchRows("UPDATE programs SET hits=hits+?, used_ms=max(used_ms,?) WHERE key=?", programs);
}

absl::StatusOr<std::vector<std::string>> Index::NamesAfter(const char* sql, std::string_view after,
                                                           uint32_t limit) {
  Query query = database_.Prepare(sql);
  query.BindBlob(after).Bind(static_cast<int64_t>(limit));
  return Names(std::move(query));
}
absl::StatusOr<std::vector<std::string>> Index::KeysAfter(std::string_view after, uint32_t limit) {
  return NamesAfter("SELECT key FROM programs WHERE key>? ORDER BY key LIMIT ?", after, limit);
}

absl::StatusOr<std::vector<ProgramRow>> Index::List(uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_PROGRAM_COLUMNS
                                  " FROM programs ORDER BY used_ms DESC, key LIMIT ?");
  query.Bind(SqlLimit(limit));
  return AllRows(query, ProgramRowOf);
}

absl::StatusOr<ProgramPage> Index::Search(const ProgramQuery& wanted) {
  ProgramPage page;
  const bool all = wanted.search.empty();
  {
    // The totals know it without a look at any row.
    Query count =
        database_.Prepare(all ? "SELECT programs FROM totals"
                              : "SELECT count(*) FROM programs WHERE " TENSORD_PROGRAM_MATCHES);
    if (!all) count.BindText(wanted.search);
    TENSORD_ASSIGN_OR_RETURN(const bool there, count.Step());
    if (there) page.matching = static_cast<uint64_t>(count.Int(0));
  }
  // By last use the index of that column gives the rows in order; by others they are sorted.
  const bool by_use = all && wanted.order == ProgramQuery::kUsed;
  Query query = database_.Prepare(
      by_use ? "SELECT " TENSORD_PROGRAM_COLUMNS
               " FROM programs ORDER BY used_ms DESC, key LIMIT ? OFFSET ?"
             : "SELECT " TENSORD_PROGRAM_COLUMNS
               " FROM programs WHERE ?1='' OR " TENSORD_PROGRAM_MATCHES
               " ORDER BY CASE ?2 WHEN 1 THEN hits WHEN 2 THEN bytes WHEN 3 THEN compile_ns "
               "WHEN 4 THEN created_ms ELSE used_ms END DESC, used_ms DESC, key "
               "LIMIT ?3 OFFSET ?4");
  if (!by_use) query.BindText(wanted.search).Bind(static_cast<int64_t>(wanted.order));
  query.Bind(SqlLimit(wanted.limit)).Bind(static_cast<int64_t>(wanted.skip));
  TENSORD_ASSIGN_OR_RETURN(page.rows, AllRows(query, ProgramRowOf));
  return page;
}

absl::StatusOr<std::vector<ProgramRow>> Index::Find(std::string_view prefix, uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_PROGRAM_COLUMNS
                                  " FROM programs WHERE key BETWEEN ? AND ? LIMIT ?");
  const std::string last = LastWith(prefix);
  query.BindBlob(prefix).BindBlob(last);
  query.Bind(SqlLimit(limit));
  return AllRows(query, ProgramRowOf);
}

absl::StatusOr<bool> Index::Has(const char* sql, std::string_view name) {
  Query query = database_.Prepare(sql);
  query.BindBlob(name);
  return query.Step();
}
absl::StatusOr<bool> Index::HasProgram(std::string_view key) {
  return Has("SELECT 1 FROM programs WHERE key=?", key);
}
absl::StatusOr<bool> Index::HasKernel(std::string_view kernel_key) {
  return Has("SELECT 1 FROM kernels WHERE kernel_key=?", kernel_key);
}
absl::StatusOr<bool> Index::HasBlob(std::string_view sha256) {
  return Has("SELECT 1 FROM blobs WHERE sha256=?", sha256);
}

absl::Status Index::AddBlob(const FileRow& blob) {
  return database_.Prepare("INSERT OR IGNORE INTO blobs(sha256,bytes) VALUES(?,?)")
      .BindBlob(blob.name)
      .Bind(static_cast<int64_t>(blob.bytes))
      .Run();
}

absl::Status Index::AddKernels(const std::vector<Kernel>& kernels) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  for (const auto& [kernel, blob, used_ms] : kernels) {
    TENSORD_RETURN_IF_ERROR(RemoveKernel(kernel.name));
    TENSORD_RETURN_IF_ERROR(AddBlob(blob));
    TENSORD_RETURN_IF_ERROR(
        database_
            .Prepare("INSERT INTO kernels(kernel_key,sha256,record_bytes,used_ms) VALUES(?,?,?,?)")
            .BindBlob(kernel.name)
            .BindBlob(blob.name)
            .Bind(static_cast<int64_t>(kernel.bytes))
            .Bind(used_ms)
            .Run());
  }
  return transaction.Commit();
}

absl::Status Index::RemoveKernel(std::string_view kernel_key) {
  return database_.Prepare("DELETE FROM kernels WHERE kernel_key=?").BindBlob(kernel_key).Run();
}

absl::Status Index::TouchKernel(std::string_view kernel_key, int64_t used_ms) {
  return database_.Prepare("UPDATE kernels SET used_ms=?1 WHERE kernel_key=?2 AND used_ms<=?1-?3")
      .Bind(used_ms)
      .BindBlob(kernel_key)
      .Bind(kTouchMs)
      .Run();
}

absl::Status Index::RemoveBlob(std::string_view sha256) {
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM kernels WHERE sha256=?").BindBlob(sha256).Run());
  return database_.Prepare("DELETE FROM blobs WHERE sha256=?").BindBlob(sha256).Run();
}

absl::StatusOr<Totals> Index::Count() {
  Query query = database_.Prepare("SELECT programs, frames, frame_bytes, bytes FROM totals");
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  if (!there) return absl::DataLossError("index: no totals");
  return Totals{static_cast<uint64_t>(query.Int(0)), static_cast<uint64_t>(query.Int(1)),
                static_cast<uint64_t>(query.Int(2)), static_cast<uint64_t>(query.Int(3))};
}

absl::Status Index::CheckTotals(const std::function<bool()>& stops) {
  const Database::Interrupts interrupts(database_, stops);
  Query query = database_.Prepare(
      "SELECT programs=(SELECT count(*) FROM programs) AND frames=(SELECT count(*) FROM frames) "
      "AND frame_bytes=(SELECT ifnull(sum(record_bytes),0) FROM frames) AND bytes="
      "frame_bytes+(SELECT ifnull(sum(record_bytes),0) FROM programs)+"
      "(SELECT ifnull(sum(record_bytes),0) FROM kernels)+"
      "(SELECT ifnull(sum(bytes),0) FROM blobs) FROM totals");
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  if (there && query.Int(0) == 1) return absl::OkStatus();
  return absl::DataLossError("index: its totals are not those of its rows");
}

absl::StatusOr<std::vector<std::string>> Index::Names(Query query) {
  return AllRows(query, [](const Query& row) { return row.Bytes(0); });
}

absl::StatusOr<bool> Index::DropBlobIfUnused(std::string_view sha256, int64_t keep_since_ms,
                                             const Drop& drop) {
  {
    Query query = database_.Prepare(
        "SELECT 1 FROM program_blobs WHERE sha256=?1 UNION ALL "
        "SELECT 1 FROM kernels WHERE sha256=?1 AND used_ms>=?2 LIMIT 1");
    query.BindBlob(sha256).Bind(keep_since_ms);
    TENSORD_ASSIGN_OR_RETURN(const bool used, query.Step());
    if (used) return false;
  }
  Query query = database_.Prepare("SELECT kernel_key FROM kernels WHERE sha256=?");
  query.BindBlob(sha256);
  TENSORD_ASSIGN_OR_RETURN(const std::vector<std::string> kernels, Names(std::move(query)));
  TENSORD_RETURN_IF_ERROR(RemoveBlob(sha256));
  for (const std::string& kernel : kernels) drop.kernel(kernel);
  drop.blob(sha256);
  return true;
}

absl::StatusOr<bool> Index::DropUnusedBlob(int64_t keep_since_ms, const Drop& drop) {
  while (true) {
    std::string sha256;
    {
      Query query = database_.Prepare(
          "SELECT sha256 FROM unused_blobs WHERE look_ms<? ORDER BY look_ms LIMIT 1");
      query.Bind(keep_since_ms);
      TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
      if (!there) return false;
      sha256 = query.Bytes(0);
    }
    TENSORD_ASSIGN_OR_RETURN(const bool dropped, DropBlobIfUnused(sha256, keep_since_ms, drop));
    if (dropped) return true;
    // Looked at once for each time that it was used, not by each eviction.
    TENSORD_RETURN_IF_ERROR(
        database_
            .Prepare("UPDATE unused_blobs SET look_ms=max(?2,ifnull((SELECT max(used_ms) FROM "
                     "kernels WHERE kernels.sha256=?1),0)) WHERE sha256=?1")
            .BindBlob(sha256)
            .Bind(keep_since_ms)
            .Run());
  }
}

absl::Status Index::DropProgram(std::string_view key, int64_t keep_since_ms, const Drop& drop) {
  Query query = database_.Prepare("SELECT sha256 FROM program_blobs WHERE key=?");
  query.BindBlob(key);
  TENSORD_ASSIGN_OR_RETURN(const std::vector<std::string> blobs, Names(std::move(query)));
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(key));
  TENSORD_RETURN_IF_ERROR(NoteGone(key, Gone::kEvicted));
  drop.program(key);
  for (const std::string& blob : blobs) {
    TENSORD_RETURN_IF_ERROR(DropBlobIfUnused(blob, keep_since_ms, drop).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Index::DropOldest(int64_t keep_since_ms, const Drop& drop) {
  std::string key;
  bool is_frame = false;
  {
    Query query = database_.Prepare(
        "SELECT key, used_ms, 0 FROM programs WHERE used_ms<?1 UNION ALL "
        "SELECT key, used_ms, 1 FROM frames WHERE used_ms<?1 ORDER BY 2 LIMIT 1");
    query.Bind(keep_since_ms);
    TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
    if (!there) return false;
    key = query.Bytes(0);
    is_frame = query.Int(2) != 0;
  }
  if (is_frame) {
    TENSORD_RETURN_IF_ERROR(DeleteFrameRows(key));
    drop.frame(key);
  } else {
    TENSORD_RETURN_IF_ERROR(DropProgram(key, keep_since_ms, drop));
  }
  return true;
}

absl::StatusOr<uint64_t> Index::Evict(uint64_t target_bytes, int64_t keep_since_ms,
                                      const Drop& drop) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  uint64_t evicted = 0;
  while (evicted < kEvictedAtOnce) {
    TENSORD_ASSIGN_OR_RETURN(const Totals totals, Count());
    if (totals.bytes <= target_bytes) break;
    TENSORD_ASSIGN_OR_RETURN(bool dropped, DropUnusedBlob(keep_since_ms, drop));
    if (!dropped) {
      TENSORD_ASSIGN_OR_RETURN(dropped, DropOldest(keep_since_ms, drop));
    }
    if (!dropped) break;
    ++evicted;
  }
  TENSORD_RETURN_IF_ERROR(transaction.Commit());
  return evicted;
}

}  // namespace tensord::store
