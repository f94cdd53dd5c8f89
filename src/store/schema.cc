#include "store/schema.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace lockstep::store {
namespace {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE migration (version INTEGER PRIMARY KEY, applied_ms INTEGER NOT NULL);
CREATE TABLE run (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL, ended_ms INTEGER,
  world INTEGER NOT NULL, layout TEXT NOT NULL, command TEXT NOT NULL, environment TEXT NOT NULL);
CREATE TABLE config (rank INTEGER PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE step (
  step INTEGER PRIMARY KEY, time_ms INTEGER, workers INTEGER NOT NULL, missing INTEGER NOT NULL,
  cosine_exact INTEGER NOT NULL, tokens INTEGER, step_ns REAL, digest_ns REAL, other_ns REAL,
  loss_min REAL, loss_max REAL,
  loss_mean REAL, loss_std REAL, loss_range REAL, token_loss REAL,
  norm_mean REAL, norm_std REAL, norm_cv REAL,
  cosine_mean REAL, cosine_mean_error REAL, cosine_pooled REAL, cosine_pooled_sketch REAL,
  reduced_norm REAL, mean_norm REAL, noise_ratio REAL, noise_ratio_smooth REAL,
  reduction_gap REAL, reduction_scale REAL);
CREATE TABLE rank_series (step INTEGER PRIMARY KEY, columns BLOB NOT NULL);
CREATE TABLE rank_detail (step INTEGER PRIMARY KEY, columns BLOB NOT NULL);
CREATE TABLE expectation (
  metric TEXT NOT NULL, step INTEGER NOT NULL, value REAL, low REAL, high REAL,
  PRIMARY KEY (metric, step)) WITHOUT ROWID;
CREATE TABLE matrix (
  step INTEGER PRIMARY KEY, ordinal INTEGER NOT NULL, workers INTEGER NOT NULL,
  ranks BLOB NOT NULL, cosines BLOB NOT NULL);
CREATE TABLE finding (
  id TEXT PRIMARY KEY, cause TEXT NOT NULL, ranks TEXT NOT NULL, first_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL, certainty TEXT NOT NULL, confidence REAL, parameters TEXT NOT NULL,
  evidence TEXT NOT NULL, message TEXT NOT NULL, remedy TEXT NOT NULL, updated_ms INTEGER NOT NULL);
CREATE TABLE health (
  rank INTEGER PRIMARY KEY, updated_ms INTEGER NOT NULL, enabled INTEGER NOT NULL,
  reason TEXT NOT NULL, counts TEXT NOT NULL, last_problem TEXT NOT NULL);
CREATE TABLE document (name TEXT PRIMARY KEY, updated_ms INTEGER NOT NULL, json TEXT NOT NULL);
)sql";

struct Migration {
  std::int64_t version;  // that it leads to
  const char* sql;
};

// In order; each starts from the version before it. Never edit one that was released: append.
constexpr std::array kMigrations = {Migration{1, kVersion1}};
static_assert(kMigrations.back().version == kSchemaVersion);

}  // namespace

Result<FileKind> identify(Database& database, const std::filesystem::path& file) {
  Result<std::int64_t> application = database.integer("PRAGMA application_id");
  if (!application) return application.error();
  if (*application != kApplicationId) {
    Result<std::int64_t> tables = database.integer("SELECT count(*) FROM sqlite_schema");
    if (!tables) return tables.error();
    if (*tables == 0 && *application == 0) return FileKind::kEmpty;
    return Status(StatusCode::kCorrupt,
                  fmt::format("{} is an SQLite file of another program: choose another run folder", file.string()));
  }
  Result<std::int64_t> version = schema_version(database);
  if (!version) return version.error();
  if (*version > kSchemaVersion) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} has run-store version {}, this lockstep knows up to {}: use a newer lockstep",
                              file.string(), *version, kSchemaVersion));
  }
  return FileKind::kRun;
}

Result<std::int64_t> schema_version(Database& database) {
  return database.integer("PRAGMA user_version");
}

Status migrate(Database& database) {
  Result<std::int64_t> version = schema_version(database);
  if (!version) return version.error();
  for (const Migration& migration : kMigrations) {
    if (migration.version <= *version) continue;
    if (Status status = database.exec(migration.sql); !status) return status;
    const std::string stamp =
        fmt::format("INSERT INTO migration VALUES ({}, {}); PRAGMA user_version = {}; PRAGMA application_id = {};",
                    migration.version, now_ms(), migration.version, kApplicationId);
    if (Status status = database.exec(stamp.c_str()); !status) return status;
  }
  return Status::ok();
}

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace lockstep::store
