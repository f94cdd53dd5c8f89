#include "store/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>

namespace lockstep::store {
namespace {

StatusCode status_code(int code) {
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return StatusCode::kCorrupt;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StatusCode::kUnavailable;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return StatusCode::kIo;
    default:
      return StatusCode::kInternal;
  }
}

const char* way_out(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return ": free some space on that disk";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return ": check that the folder exists and that you may write in it";
    case SQLITE_NOTADB:
      return ": the file is not a run of Lockstep";
    case SQLITE_CORRUPT:
      return ": the file is damaged; `sqlite3 run.sqlite .recover` may save part of it";
    default:
      return "";
  }
}

Status failure(sqlite3* connection, int code, const std::string& subject) {
  const char* text = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  const int system = connection != nullptr ? sqlite3_system_errno(connection) : 0;
  const bool add_system = system != 0 && status_code(code) == StatusCode::kIo;
  return {status_code(code), fmt::format("{}: {}{}{}{}", subject, text, add_system ? ": " : "",
                                         add_system ? std::strerror(system) : "", way_out(code))};
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void Statement::note(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) bind_error_ = code;
}

Statement& Statement::bind(int index, std::int64_t value) {
  note(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, double value) {
  note(sqlite3_bind_double(statement_.get(), index, value));
  return *this;
}

Statement& Statement::bind(int index, const std::optional<double>& value) {
  return value ? bind(index, *value) : bind_null(index);
}

Statement& Statement::bind(int index, std::string_view text) {
  note(sqlite3_bind_text64(statement_.get(), index, text.data() != nullptr ? text.data() : "", text.size(),
                           SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int index, std::span<const std::byte> blob) {
  if (blob.empty()) {
    note(sqlite3_bind_zeroblob(statement_.get(), index, 0));
  } else {
    note(sqlite3_bind_blob64(statement_.get(), index, blob.data(), blob.size(), SQLITE_TRANSIENT));
  }
  return *this;
}

Statement& Statement::bind_null(int index) {
  note(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

Result<bool> Statement::step() {
  if (bind_error_ != SQLITE_OK) {
    const int code = bind_error_;
    reset();
    return failure(nullptr, code, subject_);
  }
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  Status status = failure(sqlite3_db_handle(statement_.get()), code, subject_);
  reset();
  return status;
}

Status Statement::run() {
  Result<bool> stepped = step();
  if (!stepped) return stepped.error();
  reset();
  return Status::ok();
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  bind_error_ = SQLITE_OK;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<double> Statement::real(int column) const {
  if (is_null(column)) return std::nullopt;
  return sqlite3_column_double(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::byte> Statement::blob(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void Database::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

namespace {

// An URI, because only an URI can carry immutable=1; so the path's own special characters are escaped.
std::string uri_of(const std::filesystem::path& file, OpenMode mode) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '-' || c == '_' || c == '.';
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  if (mode == OpenMode::kImmutable) uri += "?immutable=1";
  return uri;
}

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kReadOnly:
    case OpenMode::kImmutable:
      return SQLITE_OPEN_READONLY;
    case OpenMode::kReadWrite:
      return SQLITE_OPEN_READWRITE;
    case OpenMode::kCreate:
      return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  }
  return SQLITE_OPEN_READONLY;
}

}  // namespace

Result<Database> Database::open(const std::filesystem::path& file, OpenMode mode, const std::string& vfs) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(uri_of(file, mode).c_str(), &raw, flags_of(mode) | SQLITE_OPEN_URI,
                                   vfs.empty() ? nullptr : vfs.c_str());
  Database database;
  database.connection_.reset(raw);
  database.subject_ = file.string();
  if (code != SQLITE_OK) return failure(raw, code, database.subject_);
  sqlite3_busy_timeout(raw, 5000);
  return database;
}

Status Database::exec(const char* sql) {
  const int code = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status::ok() : failure(connection_.get(), code, subject_);
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(connection_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return failure(connection_.get(), code, subject_);
  Statement statement;
  statement.statement_.reset(raw);
  statement.subject_ = subject_;
  return statement;
}

Result<std::int64_t> Database::integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return statement.error();
  Result<bool> row = statement->step();
  if (!row) return row.error();
  return *row ? statement->integer(0) : 0;
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(connection_.get()) == 0;
}

}  // namespace lockstep::store
