// SPDX-License-Identifier: Apache-2.0
// The index's tables of frames.
#include "server/store/index.h"

namespace tensord::store {
namespace {

#define TENSORD_FRAME_COLUMNS \
  "key,code,environment,module,name,guards,graphs,inlined,record_bytes,hits,created_ms,used_ms"

FrameRow FrameRowOf(const Query& query) {
  FrameRow row;
  row.key = query.Bytes(0);
  row.facts.code = query.Bytes(1);
  row.facts.environment = query.Bytes(2);
  row.facts.module = query.Bytes(3);
  row.facts.qualified_name = query.Bytes(4);
  row.facts.guards = static_cast<uint32_t>(query.Int(5));
  row.facts.graphs = static_cast<uint32_t>(query.Int(6));
  row.facts.inlined = static_cast<uint32_t>(query.Int(7));
  row.bytes = static_cast<uint64_t>(query.Int(8));
  row.hits = static_cast<uint64_t>(query.Int(9));
  row.created_ms = query.Int(10);
  row.used_ms = query.Int(11);
  return row;
}

}  // namespace

absl::Status Index::AddFrames(const std::vector<FrameRow>& frames, const Drop& drop) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  for (const FrameRow& frame : frames) {
    TENSORD_RETURN_IF_ERROR(InsertFrame(frame));
    TENSORD_RETURN_IF_ERROR(DropFramesBeyondMost(frame.facts, drop));
  }
  return transaction.Commit();
}

// Hits and the time when it was made stay those of a row that was there. What else it says is
// written anew: it may be damaged.
absl::Status Index::InsertFrame(const FrameRow& row) {
  TENSORD_RETURN_IF_ERROR(database_
                              .Prepare("INSERT INTO frames(" TENSORD_FRAME_COLUMNS
                                       ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(key) DO "
                                       "UPDATE SET code=excluded.code, "
                                       "environment=excluded.environment, "
                                       "module=excluded.module, name=excluded.name, "
                                       "guards=excluded.guards, graphs=excluded.graphs, "
                                       "inlined=excluded.inlined, "
                                       "record_bytes=excluded.record_bytes, "
                                       "used_ms=max(used_ms,excluded.used_ms)")
                              .BindBlob(row.key)
                              .BindBlob(row.facts.code)
                              .BindBlob(row.facts.environment)
                              .BindText(row.facts.module)
                              .BindText(row.facts.qualified_name)
                              .Bind(row.facts.guards)
                              .Bind(row.facts.graphs)
                              .Bind(row.facts.inlined)
                              .Bind(static_cast<int64_t>(row.bytes))
                              .Bind(static_cast<int64_t>(row.hits))
                              .Bind(row.created_ms)
                              .Bind(row.used_ms)
                              .Run());
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM frame_behind WHERE key=?").BindBlob(row.key).Run());
  for (const std::string& behind : row.facts.behind) {
    TENSORD_RETURN_IF_ERROR(
        database_.Prepare("INSERT OR IGNORE INTO frame_behind(behind,key) VALUES(?,?)")
            .BindBlob(behind)
            .BindBlob(row.key)
            .Run());
  }
  return absl::OkStatus();
}

absl::Status Index::DropFramesBeyondMost(const FrameFacts& facts, const Drop& drop) {
  Query query = database_.Prepare(
      "SELECT key FROM frames WHERE code=? AND environment=? ORDER BY used_ms DESC, created_ms "
      "DESC, key LIMIT -1 OFFSET ?");
  query.BindBlob(facts.code).BindBlob(facts.environment);
  query.Bind(static_cast<int64_t>(kMaxFramesOfCode));
  TENSORD_ASSIGN_OR_RETURN(const std::vector<std::string> beyond, Names(std::move(query)));
  for (const std::string& key : beyond) {
    TENSORD_RETURN_IF_ERROR(DeleteFrameRows(key));
    drop.frame(key);
  }
  return absl::OkStatus();
}

absl::Status Index::DeleteFrameRows(std::string_view key) {
  TENSORD_RETURN_IF_ERROR(
      database_.Prepare("DELETE FROM frame_behind WHERE key=?").BindBlob(key).Run());
  return database_.Prepare("DELETE FROM frames WHERE key=?").BindBlob(key).Run();
}

absl::Status Index::RemoveFrame(std::string_view key) {
  TENSORD_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database_));
  TENSORD_RETURN_IF_ERROR(DeleteFrameRows(key));
  return transaction.Commit();
}

absl::Status Index::TouchFrames(const std::vector<Touched>& frames) {
  return TouchRows("UPDATE frames SET hits=hits+?, used_ms=max(used_ms,?) WHERE key=?", frames);
}

absl::StatusOr<bool> Index::HasFrame(std::string_view key) {
  return Has("SELECT 1 FROM frames WHERE key=?", key);
}

absl::StatusOr<std::vector<std::string>> Index::FrameKeysAfter(std::string_view after,
                                                               uint32_t limit) {
  return NamesAfter("SELECT key FROM frames WHERE key>? ORDER BY key LIMIT ?", after, limit);
}

absl::StatusOr<std::vector<FrameRow>> Index::FramesOf(std::string_view code,
                                                      std::string_view environment) {
  Query query =
      database_.Prepare("SELECT " TENSORD_FRAME_COLUMNS
                        " FROM frames WHERE code=? AND environment=? ORDER BY used_ms DESC, "
                        "created_ms DESC, key LIMIT ?");
  query.BindBlob(code).BindBlob(environment).Bind(static_cast<int64_t>(kMaxFramesOfCode));
  return AllRows(query, FrameRowOf);
}

absl::StatusOr<std::vector<std::string>> Index::CodesBehind(std::string_view code,
                                                            std::string_view environment,
                                                            uint32_t limit) {
  Query query = database_.Prepare(
      "SELECT code FROM frames JOIN frame_behind USING(key) WHERE behind=? AND environment=? "
      "GROUP BY code ORDER BY min(created_ms), code LIMIT ?");
  query.BindBlob(code).BindBlob(environment).Bind(static_cast<int64_t>(limit));
  return Names(std::move(query));
}

absl::StatusOr<std::vector<FrameRow>> Index::ListFrames(uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_FRAME_COLUMNS
                                  " FROM frames ORDER BY used_ms DESC, key LIMIT ?");
  query.Bind(SqlLimit(limit));
  return AllRows(query, FrameRowOf);
}

absl::StatusOr<std::vector<FrameRow>> Index::FindFrames(std::string_view prefix, uint32_t limit) {
  Query query = database_.Prepare("SELECT " TENSORD_FRAME_COLUMNS
                                  " FROM frames WHERE key BETWEEN ? AND ? LIMIT ?");
  const std::string last = LastWith(prefix);
  query.BindBlob(prefix).BindBlob(last);
  query.Bind(static_cast<int64_t>(limit));
  return AllRows(query, FrameRowOf);
}

}  // namespace tensord::store
