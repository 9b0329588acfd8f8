// SPDX-License-Identifier: Apache-2.0
#include "server/store/sqlite.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <utility>

namespace tensord::store {
namespace {

absl::Status SqliteStatus(sqlite3* db, int code) {
  const std::string message = absl::StrCat("index: ", sqlite3_errmsg(db));
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_CANTOPEN: {
      // For want of rights, or of room, descriptors and so on, which may pass.
      const absl::Status why = absl::ErrnoToStatus(sqlite3_system_errno(db), message);
      return absl::IsPermissionDenied(why) || absl::IsResourceExhausted(why)
                 ? why
                 : absl::UnavailableError(message);
    }
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace

Query::~Query() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Query& Query::Bind(int64_t value) {
  sqlite3_bind_int64(statement_, next_++, value);
  return *this;
}

Query& Query::BindBlob(std::string_view value) {
  // A null pointer would bind NULL, not an empty blob.
  sqlite3_bind_blob64(statement_, next_++, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_TRANSIENT);
  return *this;
}

Query& Query::BindText(std::string_view value) {
  sqlite3_bind_text64(statement_, next_++, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

absl::StatusOr<bool> Query::Step() {
  if (statement_ == nullptr) {
    // Our own words are not understood where what the file says of its tables is damaged.
    const int code = sqlite3_errcode(db_);
    return code == SQLITE_ERROR ? absl::DataLossError(absl::StrCat("index: ", sqlite3_errmsg(db_)))
                                : SqliteStatus(db_, code);
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteStatus(db_, code);
}

absl::Status Query::Run() {
  while (true) {
    TENSORD_ASSIGN_OR_RETURN(const bool more, Step());
    if (!more) return absl::OkStatus();
  }
}

int64_t Query::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Query::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

absl::StatusOr<Database> Database::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle);
  if (code != SQLITE_OK) return SqliteStatus(handle, code);
  // SQLite opens a file for reading where it cannot for writing, be it for a moment.
  if (sqlite3_db_readonly(handle, nullptr) == 1) {
    return access(path.c_str(), W_OK) == 0
               ? absl::UnavailableError("index: cannot be opened for writing now")
               : absl::PermissionDeniedError("index: may not be written");
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5000);
  // NORMAL with WAL never corrupts; the last transactions before a power cut may be missing, and
  // then their files are found to be strangers and cleaned.
  TENSORD_RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"));
  TENSORD_RETURN_IF_ERROR(database.Execute(kUsualPages));
  return database;
}

Database::Database(Database&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)), statements_(std::move(other.statements_)) {
  other.statements_.clear();
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  if (db_ != nullptr) sqlite3_close(db_);
}

Database::Interrupts::Interrupts(Database& database, const std::function<bool()>& stops)
    : database_(database) {
  constexpr int kStepsBetween = 100'000;
  // SQLite's interface has the address without const.
  auto* address = const_cast<std::function<bool()>*>(&stops);
  const auto ask = [](void* stops) -> int {
    return (*static_cast<std::function<bool()>*>(stops))();
  };
  sqlite3_progress_handler(database_.db_, kStepsBetween, ask, address);
}

Database::Interrupts::~Interrupts() {
  sqlite3_progress_handler(database_.db_, 0, nullptr, nullptr);
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteStatus(db_, code);
}

Query Database::Prepare(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (statement == nullptr) {
    sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  }
  return Query(db_, statement);
}

uint64_t Database::Work() const {
  uint64_t steps = 0;
  for (const auto& [sql, statement] : statements_) {
    if (statement == nullptr) continue;
    steps += static_cast<uint64_t>(
        sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/0));
  }
  return steps;
}

absl::StatusOr<Transaction> Transaction::Begin(Database& database) {
  TENSORD_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return Transaction(&database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) database_->Execute("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Commit() {
  TENSORD_RETURN_IF_ERROR(database_->Execute("COMMIT"));
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace tensord::store
