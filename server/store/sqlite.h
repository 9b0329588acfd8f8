// SPDX-License-Identifier: Apache-2.0
// The little of SQLite that the index needs, with statuses.
#ifndef TENSORD_SERVER_STORE_SQLITE_H_
#define TENSORD_SERVER_STORE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"

namespace tensord::store {

// What a database begins with: a megabyte of its pages in memory, and a log that is written back at
// 4 MiB, and cut to that.
inline constexpr char kUsualPages[] =
    "PRAGMA cache_size=-1024; PRAGMA wal_autocheckpoint=1000; PRAGMA journal_size_limit=4194304";

// A prepared statement on its way through one use; resets itself.
class Query {
 public:
  Query(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  Query(Query&& other) noexcept
      : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)), next_(other.next_) {}
  ~Query();

  // Parameters in order.
  Query& Bind(int64_t value);
  Query& BindBlob(std::string_view value);
  Query& BindText(std::string_view value);
  Query& BindNull() { return ++next_, *this; }  // what no value was bound to

  // True: a row is there. False: no more.
  absl::StatusOr<bool> Step();
  // Runs to the end.
  absl::Status Run();

  int64_t Int(int column) const;
  std::string Bytes(int column) const;

 private:
  sqlite3* db_;
  sqlite3_stmt* statement_;
  int next_ = 1;
};

// What `make` gives for each row that is left.
template <typename Make>
auto AllRows(Query& query,
             Make make) -> absl::StatusOr<std::vector<decltype(make(std::as_const(query)))>> {
  std::vector<decltype(make(std::as_const(query)))> rows;
  while (true) {
    TENSORD_ASSIGN_OR_RETURN(const bool more, query.Step());
    if (!more) return rows;
    rows.push_back(make(std::as_const(query)));
  }
}

class Database {
 public:
  // Waits up to five seconds for other processes at every statement. DataLoss: not a database.
  static absl::StatusOr<Database> Open(const std::string& path);
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();

  // Any number of statements without results.
  absl::Status Execute(const char* sql);
  // `sql` is a literal: statements are kept by its address. Null statements surface at Step().
  Query Prepare(const char* sql);
  int64_t Changes() const { return sqlite3_changes64(db_); }
  // While it lives, statements end with a status when `stops` says so, which is asked now and then.
  class Interrupts {
   public:
    Interrupts(Database& database, const std::function<bool()>& stops);
    ~Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

   private:
    Database& database_;
  };
  // Steps of SQLite's machine that the statements of Prepare() have taken so far, triggers'
  // included.
  uint64_t Work() const;

 private:
  explicit Database(sqlite3* db) : db_(db) {}
  sqlite3* db_;
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

// BEGIN IMMEDIATE ... COMMIT; rolls back unless committed.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  ~Transaction();
  absl::Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

// No digest that begins with `prefix` is greater. With it such digests are a range of an index.
inline std::string LastWith(std::string_view prefix) {
  return std::string(prefix) + std::string(kSha256Bytes, '\xff');
}

}  // namespace tensord::store

#endif  // TENSORD_SERVER_STORE_SQLITE_H_
