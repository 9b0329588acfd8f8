// SPDX-License-Identifier: Apache-2.0
#include "server/store/index.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "base/version.h"

namespace tensord::store {
namespace {

constexpr char kSchema[] = R"(
CREATE TABLE IF NOT EXISTS programs(
  key BLOB PRIMARY KEY, label TEXT, target TEXT, nodes INT, kernels INT, externs INT,
  compile_ns INT, manifest_bytes INT, bytes INT, hits INT, created_ms INT, used_ms INT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS programs_used ON programs(used_ms);
CREATE TABLE IF NOT EXISTS program_blobs(
  key BLOB, sha256 BLOB, PRIMARY KEY(key, sha256)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS program_blobs_sha256 ON program_blobs(sha256);
CREATE TABLE IF NOT EXISTS kernels(
  kernel_key BLOB PRIMARY KEY, sha256 BLOB, size INT, source BLOB, used_ms INT, facts BLOB);
CREATE INDEX IF NOT EXISTS kernels_sha256 ON kernels(sha256);
)";
constexpr char kFromForm1[] = R"(
ALTER TABLE kernels ADD COLUMN facts BLOB;
)";

#define TENSORD_PROGRAM_COLUMNS \
  "key,label,target,nodes,kernels,externs,compile_ns,bytes,hits,created_ms,used_ms"

ProgramRow RowOf(const Query& query) {
  ProgramRow row;
  row.key = query.Bytes(0);
  row.facts.label = query.Bytes(1);
  row.facts.target = query.Bytes(2);
  row.facts.nodes = static_cast<uint32_t>(query.Int(3));
  row.facts.kernels = static_cast<uint32_t>(query.Int(4));
  row.facts.externs = static_cast<uint32_t>(query.Int(5));
  row.facts.compile_nanoseconds = static_cast<uint64_t>(query.Int(6));
  row.bytes = static_cast<uint64_t>(query.Int(7));
  row.hits = static_cast<uint64_t>(query.Int(8));
  row.created_ms = query.Int(9);
  row.used_ms = query.Int(10);
  return row;
}

absl::StatusOr<std::vector<ProgramRow>> Rows(Query& query) {
  std::vector<ProgramRow> rows;
  while (true) {
    TENSORD_ASSIGN_OR_RETURN(const bool more, query.Step());
    if (!more) return rows;
    rows.push_back(RowOf(query));
  }
}

absl::StatusOr<int64_t> FormOf(Database& database) {
  Query query = database.Prepare("PRAGMA user_version");
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  return there ? query.Int(0) : 0;
}

int64_t SqlLimit(uint32_t limit) { return limit == 0 ? -1 : static_cast<int64_t>(limit); }

}  // namespace

absl::StatusOr<Index> Index::Open(const std::string& path) {
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
      const std::string sql =
          absl::StrCat(form == 0 ? kSchema : kFromForm1, "PRAGMA user_version=", kStoreForm);
      TENSORD_RETURN_IF_ERROR(database.Execute(sql.c_str()));
    }
    TENSORD_RETURN_IF_ERROR(transaction.Commit());
  }
  return Index(std::move(database));
}

absl::Status Index::AddProgram(const ProgramRow& row, uint64_t manifest_bytes,
                               const std::vector<std::string>& blobs,
                               const std::function<absl::Status()>& check) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(check());
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(row.key));
  TENSORD_RETURN_IF_ERROR(database_
                              .Prepare("INSERT INTO programs(" TENSORD_PROGRAM_COLUMNS
                                       ",manifest_bytes) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)")
                              .BindBlob(row.key)
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
                              .Bind(static_cast<int64_t>(manifest_bytes))
                              .Run());
  for (const std::string& blob : blobs) {
    TENSORD_RETURN_IF_ERROR(
        database_.Prepare("INSERT OR IGNORE INTO program_blobs(key,sha256) VALUES(?,?)")
            .BindBlob(row.key)
            .BindBlob(blob)
            .Run());
  }
  return transaction.Commit();
}

absl::Status Index::DeleteProgramRows(std::string_view key) {
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM program_blobs WHERE key=?").BindBlob(key).Run());
  return database_.Prepare("DELETE FROM programs WHERE key=?").BindBlob(key).Run();
}

absl::Status Index::RemoveProgram(std::string_view key) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(key));
  return transaction.Commit();
}

absl::Status Index::Touch(std::string_view key, uint64_t hits, int64_t used_ms) {
  return database_.Prepare("UPDATE programs SET hits=hits+?, used_ms=max(used_ms,?) WHERE key=?")
      .Bind(static_cast<int64_t>(hits))
      .Bind(used_ms)
      .BindBlob(key)
      .Run();
}

absl::StatusOr<std::vector<ProgramRow>> Index::List(uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_PROGRAM_COLUMNS
                                  " FROM programs ORDER BY used_ms DESC, key LIMIT ?");
  query.Bind(SqlLimit(limit));
  return Rows(query);
}

absl::StatusOr<std::vector<ProgramRow>> Index::Find(std::string_view prefix, uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_PROGRAM_COLUMNS
                                  " FROM programs WHERE key>=? AND substr(key,1,?)=? LIMIT ?");
  query.BindBlob(prefix).Bind(static_cast<int64_t>(prefix.size())).BindBlob(prefix);
  query.Bind(SqlLimit(limit));
  return Rows(query);
}

absl::Status Index::AddKernel(std::string_view kernel_key, const KernelRow& kernel,
                              std::string_view source, int64_t used_ms) {
  return database_
      .Prepare(
          "INSERT OR REPLACE INTO kernels(kernel_key,sha256,size,source,used_ms,facts) "
          "VALUES(?,?,?,?,?,?)")
      .BindBlob(kernel_key)
      .BindBlob(kernel.sha256)
      .Bind(static_cast<int64_t>(kernel.size))
      .BindBlob(source)
      .Bind(used_ms)
      .BindBlob(kernel.facts)
      .Run();
}

absl::StatusOr<std::optional<KernelRow>> Index::FindKernel(std::string_view kernel_key,
                                                           int64_t used_ms) {
  KernelRow row;
  int64_t last = 0;
  {
    Query query =
        database_.Prepare("SELECT sha256,size,used_ms,facts FROM kernels WHERE kernel_key=?");
    query.BindBlob(kernel_key);
    TENSORD_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (!found) return std::optional<KernelRow>();
    row = {query.Bytes(0), static_cast<uint64_t>(query.Int(1)), query.Bytes(3)};
    last = query.Int(2);
  }
  if (used_ms - last >= kTouchMs) {
    TENSORD_RETURN_IF_ERROR(database_.Prepare("UPDATE kernels SET used_ms=? WHERE kernel_key=?")
                                .Bind(used_ms)
                                .BindBlob(kernel_key)
                                .Run());
  }
  return std::optional<KernelRow>(std::move(row));
}

absl::StatusOr<std::string> Index::KernelSource(std::string_view kernel_key) {
  Query query = database_.Prepare("SELECT source FROM kernels WHERE kernel_key=?");
  query.BindBlob(kernel_key);
  TENSORD_ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found) return absl::NotFoundError("no such kernel");
  return query.Bytes(0);
}

absl::Status Index::RemoveBlob(std::string_view sha256) {
  return database_.Prepare("DELETE FROM kernels WHERE sha256=?").BindBlob(sha256).Run();
}

absl::StatusOr<Totals> Index::Count() {
  // Several kernel keys may lead to one blob, which is stored once.
  Query query = database_.Prepare(
      "SELECT (SELECT count(*) FROM programs), (SELECT ifnull(sum(manifest_bytes),0) FROM programs)"
      " + (SELECT ifnull(sum(size),0) FROM (SELECT max(size) AS size FROM kernels GROUP BY "
      "sha256))");
  TENSORD_ASSIGN_OR_RETURN(const bool there, query.Step());
  if (!there) return absl::InternalError("index: no totals");
  return Totals{static_cast<uint64_t>(query.Int(0)), static_cast<uint64_t>(query.Int(1))};
}

absl::Status Index::DropUnusedBlobs(int64_t keep_since_ms,
                                    const std::function<void(std::string_view)>& drop_blob) {
  std::vector<std::string> unused;
  {
    Query query = database_.Prepare(
        "SELECT sha256 FROM kernels WHERE NOT EXISTS (SELECT 1 FROM program_blobs AS p WHERE "
        "p.sha256=kernels.sha256) GROUP BY sha256 HAVING max(used_ms)<?");
    query.Bind(keep_since_ms);
    while (true) {
      TENSORD_ASSIGN_OR_RETURN(const bool more, query.Step());
      if (!more) break;
      unused.push_back(query.Bytes(0));
    }
  }
  for (const std::string& blob : unused) {
    TENSORD_RETURN_IF_ERROR(RemoveBlob(blob));
    drop_blob(blob);
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Index::DropProgram(
    std::string_view key, int64_t keep_since_ms,
    const std::function<void(std::string_view sha256)>& drop_blob) {
  std::vector<std::string> blobs;
  uint64_t freed = 0;
  {
    Query query = database_.Prepare("SELECT manifest_bytes FROM programs WHERE key=?");
    query.BindBlob(key);
    TENSORD_ASSIGN_OR_RETURN(const bool found, query.Step());
    if (found) freed = static_cast<uint64_t>(query.Int(0));
  }
  {
    Query query = database_.Prepare("SELECT sha256 FROM program_blobs WHERE key=?");
    query.BindBlob(key);
    while (true) {
      TENSORD_ASSIGN_OR_RETURN(const bool more, query.Step());
      if (!more) break;
      blobs.push_back(query.Bytes(0));
    }
  }
  TENSORD_RETURN_IF_ERROR(DeleteProgramRows(key));
  for (const std::string& blob : blobs) {
    uint64_t size = 0;
    {
      Query query = database_.Prepare(
          "SELECT max(size) FROM kernels WHERE sha256=?1 AND NOT EXISTS (SELECT 1 FROM "
          "program_blobs AS p WHERE p.sha256=?1) HAVING max(used_ms)<?2");
      query.BindBlob(blob).Bind(keep_since_ms);
      TENSORD_ASSIGN_OR_RETURN(const bool unused, query.Step());
      if (!unused) continue;
      size = static_cast<uint64_t>(query.Int(0));
    }
    TENSORD_RETURN_IF_ERROR(RemoveBlob(blob));
    drop_blob(blob);
    freed += size;
  }
  return freed;
}

absl::StatusOr<uint64_t> Index::Evict(
    uint64_t target_bytes, int64_t keep_since_ms,
    const std::function<void(std::string_view key)>& drop_manifest,
    const std::function<void(std::string_view sha256)>& drop_blob) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(DropUnusedBlobs(keep_since_ms, drop_blob));
  TENSORD_ASSIGN_OR_RETURN(const Totals totals, Count());
  uint64_t left = totals.bytes;
  uint64_t evicted = 0;
  while (left > target_bytes) {
    std::string oldest;
    {
      Query query =
          database_.Prepare("SELECT key FROM programs WHERE used_ms<? ORDER BY used_ms LIMIT 1");
      query.Bind(keep_since_ms);
      TENSORD_ASSIGN_OR_RETURN(const bool found, query.Step());
      if (!found) break;
      oldest = query.Bytes(0);
    }
    TENSORD_ASSIGN_OR_RETURN(const uint64_t freed, DropProgram(oldest, keep_since_ms, drop_blob));
    drop_manifest(oldest);
    left -= std::min(left, freed);
    ++evicted;
  }
  TENSORD_RETURN_IF_ERROR(transaction.Commit());
  return evicted;
}

}  // namespace tensord::store
