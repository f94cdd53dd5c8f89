// The layout of run.sqlite: its version, its tables, and the way from every older version to this one.
// docs/run_store.md describes the tables and states the rule for older files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/status.h"
#include "store/sqlite.h"

namespace lockstep::store {

inline constexpr std::int64_t kApplicationId = 0x4c4b5354;  // "LKST", in the file's header
inline constexpr std::int64_t kSchemaVersion = 1;
inline constexpr const char* kRunFile = "run.sqlite";

enum class FileKind { kEmpty, kRun };

// Looks at the header: refuses a foreign file and one of a newer version, in words that say what to do. kEmpty: a file
// whose writer was stopped before its first commit.
Result<FileKind> identify(Database& database, const std::filesystem::path& file);

// Brings an empty or older file to kSchemaVersion, in one transaction that the caller has begun.
Status migrate(Database& database);

// Version of the file as it is.
Result<std::int64_t> schema_version(Database& database);

std::int64_t now_ms();

}  // namespace lockstep::store
