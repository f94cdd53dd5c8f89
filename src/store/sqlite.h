// SQLite with C++ lifetimes: a connection, a prepared statement, and its error codes as Status.
// Only what the run store needs; it hides no SQL. One thread at a time per connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lockstep::store {

// A prepared statement. Binding errors are kept and returned by the next step(). Indexes: parameters from 1, columns
// from 0. Views that a column gives live until the next step() or reset().
class Statement {
 public:
  Statement() = default;

  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, double value);  // NaN is stored as NULL
  Statement& bind(int index, const std::optional<double>& value);
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::span<const std::byte> blob);
  Statement& bind_null(int index);

  // True: a row is there. False: done.
  Result<bool> step();
  // Steps once, expects no row, and makes the statement ready for the next bindings.
  Status run();
  void reset();

  std::int64_t integer(int column) const;
  std::optional<double> real(int column) const;
  std::string_view text(int column) const;
  std::span<const std::byte> blob(int column) const;
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void note(int code);
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string subject_;  // of error messages: the file
  int bind_error_ = 0;
};

enum class OpenMode {
  kReadOnly,
  kImmutable,  // read-only, and nobody writes: needs no locks and no shared memory, so works on read-only media
  kReadWrite,
  kCreate,
};

class Database {
 public:
  // `vfs`: name of a registered sqlite3_vfs, empty for the system's own. Tests break the disk through it.
  static Result<Database> open(const std::filesystem::path& file, OpenMode mode, const std::string& vfs = {});

  Status exec(const char* sql);
  Result<Statement> prepare(std::string_view sql);
  Result<std::int64_t> integer(std::string_view sql);  // first column of the first row
  bool in_transaction() const;                         // false also after SQLite rolled back by itself

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  std::unique_ptr<sqlite3, Close> connection_;
  std::string subject_;
};

// Runs `body` inside BEGIN IMMEDIATE .. COMMIT; rolls back when it or the commit fails.
template <class Body>
Status in_transaction(Database& database, Body&& body) {
  if (Status begun = database.exec("BEGIN IMMEDIATE"); !begun) return begun;
  Status done = body();
  if (done) done = database.exec("COMMIT");
  if (!done && database.in_transaction()) (void)database.exec("ROLLBACK");
  return done;
}

}  // namespace lockstep::store
