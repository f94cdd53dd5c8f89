#include "store/run_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "store/schema.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;

std::string random_id() {
  std::random_device device;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

std::string layout_json(const RecordLayout& layout) {
  const nlohmann::json json = {{"k", layout.k},
                               {"k_reduced", layout.k_reduced},
                               {"max_fingerprints", layout.max_fingerprints},
                               {"seed", std::to_string(layout.seed)}};
  return json.dump();
}

// WAL: readers never wait for the writer nor the writer for readers, and a kill loses only what was not committed.
// synchronous=NORMAL: commits survive a kill of the process at once, a loss of power up to the last checkpoint.
Status configure(Database& database) {
  return database.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864;"
      "PRAGMA foreign_keys = ON");
}

Status insert_run(Database& database, const fs::path& folder, const RunInfo& info) {
  Result<Statement> insert = database.prepare("INSERT INTO run VALUES (1, ?, ?, ?, NULL, ?, ?, ?, ?)");
  if (!insert) return insert.error();
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  const fs::path last = absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename();
  insert->bind(1, info.id.empty() ? random_id() : info.id);
  insert->bind(2, info.name.empty() ? last.string() : info.name);
  insert->bind(3, info.created_ms != 0 ? info.created_ms : now_ms());
  insert->bind(4, std::int64_t{info.world}).bind(5, layout_json(info.layout)).bind(6, info.command);
  return insert->bind(7, info.environment).run();
}

Result<RunFile> lock_and_open(const fs::path& folder, OpenMode mode, const std::string& vfs) {
  Result<WriterLock> lock = WriterLock::acquire(folder);
  if (!lock) return lock.error();
  RunFile file;
  file.path = folder / kRunFile;
  file.lock = std::move(*lock);
  Result<Database> database = Database::open(file.path, mode, vfs);
  if (!database) return database.error();
  file.database = std::move(*database);
  return file;
}

}  // namespace

Result<RunFile> create_run(const fs::path& folder, const RunInfo& info, const std::string& vfs) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return Status(StatusCode::kIo, fmt::format("run folder {} cannot be made: {}: choose another folder",
                                               folder.string(), error.message()));
  }
  Result<RunFile> file = lock_and_open(folder, OpenMode::kCreate, vfs);
  if (!file) return file.error();
  Result<FileKind> kind = identify(file->database, file->path);
  if (!kind) return kind.error();
  if (*kind == FileKind::kRun) {
    return Status(StatusCode::kFailedPrecondition,
                  fmt::format("{} holds a run already: give the new run another name", folder.string()));
  }
  Status made = configure(file->database);
  if (made) {
    made = in_transaction(file->database, [&] {
      Status status = migrate(file->database);
      return status ? insert_run(file->database, folder, info) : status;
    });
  }
  if (!made) {
    file->database = Database();
    remove_run_files(folder);  // it was empty when we came
    return made;
  }
  return file;
}

Result<RunFile> open_run(const fs::path& folder, const std::string& vfs) {
  if (std::error_code error; !fs::exists(folder / kRunFile, error)) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} holds no {}: is it a run folder?", folder.string(), kRunFile));
  }
  Result<RunFile> file = lock_and_open(folder, OpenMode::kReadWrite, vfs);
  if (!file) return file.error();
  Result<FileKind> kind = identify(file->database, file->path);
  if (!kind) return kind.error();
  if (*kind == FileKind::kEmpty) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} is empty, its writer was stopped before the first step: remove the folder",
                              file->path.string()));
  }
  if (Status status = configure(file->database); !status) return status;
  const Status ready = in_transaction(file->database, [&] {
    Status status = migrate(file->database);
    return status ? file->database.exec("UPDATE run SET ended_ms = NULL") : status;
  });
  if (!ready) return ready;
  return file;
}

void remove_run_files(const fs::path& folder) {
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::error_code ignored;
    fs::remove(folder / (std::string(kRunFile) + suffix), ignored);
  }
}

Status end_run(RunFile& file) {
  const std::string sql = fmt::format("UPDATE run SET ended_ms = {}", now_ms());
  if (Status status = file.database.exec(sql.c_str()); !status) return status;
  (void)file.database.exec("PRAGMA busy_timeout = 100; PRAGMA journal_mode = DELETE");
  return Status::ok();
}

}  // namespace lockstep::store
