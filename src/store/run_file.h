// Making, opening and ending run.sqlite for writing: the folder, the lock, the schema.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/status.h"
#include "store/run_info.h"
#include "store/sqlite.h"
#include "store/writer_lock.h"

namespace lockstep::store {

// Destroyed in reverse: the lock outlives the connection.
struct RunFile {
  std::filesystem::path path;
  WriterLock lock;
  Database database;
};

Result<RunFile> create_run(const std::filesystem::path& folder, const RunInfo& info, const std::string& vfs);
Result<RunFile> open_run(const std::filesystem::path& folder, const std::string& vfs);

// Removes run.sqlite and what belongs to it: for makers that failed half-way, never for a run that exists.
void remove_run_files(const std::filesystem::path& folder);

// Marks the run as ended and folds the write-ahead log into the file, so that the run is one plain file that opens on
// read-only media. Where a reader holds it open, the log stays beside it; that is no error.
Status end_run(RunFile& file);

}  // namespace lockstep::store
