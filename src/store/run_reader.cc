#include "store/run_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/bytes.h"
#include "store/schema.h"
#include "store/writer_lock.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// JSON that we wrote ourselves; what does not parse is an empty object rather than an exception.
json parse_json(std::string_view text) {
  json parsed = json::parse(text, nullptr, false);
  return parsed.is_discarded() ? json::object() : parsed;
}

template <class T>
T field(const json& object, const char* name, T otherwise) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() && found->is_number() ? found->get<T>() : otherwise;
}

RecordLayout parse_layout(std::string_view text) {
  const json parsed = parse_json(text);
  RecordLayout layout;
  layout.k = field(parsed, "k", layout.k);
  layout.k_reduced = field(parsed, "k_reduced", layout.k_reduced);
  layout.max_fingerprints = field(parsed, "max_fingerprints", layout.max_fingerprints);
  if (parsed.contains("seed") && parsed["seed"].is_string()) {
    layout.seed = std::strtoull(parsed["seed"].get_ref<const std::string&>().c_str(), nullptr, 10);
  }
  return layout;
}

std::uint64_t bytes_on_disk(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto size = fs::file_size(folder / (std::string(kRunFile) + suffix), error);
    if (!error) bytes += size;
  }
  return bytes;
}

bool has_beside(const fs::path& folder, const char* suffix) {
  std::error_code error;
  const auto size = fs::file_size(folder / (std::string(kRunFile) + suffix), error);
  return !error && size > 0;
}

// Elements of a JSON list that have the wanted type; the store's own writer makes no others.
template <class T>
std::vector<T> list_of(std::string_view text) {
  std::vector<T> values;
  const json parsed = parse_json(text);
  if (!parsed.is_array()) return values;
  for (const json& element : parsed) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (element.is_string()) values.push_back(element.get<std::string>());
    } else {
      if (element.is_number_unsigned()) values.push_back(element.get<T>());
    }
  }
  return values;
}

std::optional<std::int64_t> optional_integer(const Statement& row, int column) {
  return row.is_null(column) ? std::nullopt : std::optional(row.integer(column));
}

// Calls `each` per row of `statement`.
template <class Each>
Status for_each_row(Statement& statement, Each&& each) {
  while (true) {
    Result<bool> row = statement.step();
    if (!row) return row.error();
    if (!*row) return Status::ok();
    each(statement);
  }
}

}  // namespace

Result<RunReader> RunReader::open(const fs::path& folder, const std::string& vfs) {
  RunReader reader;
  reader.folder_ = folder;
  const fs::path file = folder / kRunFile;
  if (std::error_code error; !fs::exists(file, error)) {
    return Status(StatusCode::kUnavailable,
                  fmt::format("{} holds no {}: is it a run folder?", folder.string(), kRunFile));
  }
  Result<FileKind> kind = reader.connect(OpenMode::kReadOnly, vfs);
  if (!kind && kind.error().code() == StatusCode::kIo) {
    if (has_beside(folder, "-journal")) {
      // A writer was stopped while it ended the run: SQLite must undo that half step, which takes a connection that may
      // write. Afterwards ours is read-only again.
      if (Result<FileKind> mended = reader.connect(OpenMode::kReadWrite, vfs); !mended) return mended.error();
      kind = reader.connect(OpenMode::kReadOnly, vfs);
    } else if (!has_beside(folder, "-wal")) {
      // Where SQLite may not make its shared-memory file, a run without a log can still be read as it stands.
      kind = reader.connect(OpenMode::kImmutable, vfs);
    }
  }
  if (!kind) return kind.error();
  if (*kind == FileKind::kEmpty) {
    return Status(
        StatusCode::kUnavailable,
        fmt::format("{} is empty: its writer has not begun, or was stopped before its first step", file.string()));
  }
  return reader;
}

Result<FileKind> RunReader::connect(OpenMode mode, const std::string& vfs) {
  const fs::path file = folder_ / kRunFile;
  Result<Database> database = Database::open(file, mode, vfs);
  if (!database) return database.error();
  database_ = std::move(*database);
  return identify(database_, file);
}

Result<RunSummary> RunReader::summary() {
  RunSummary summary;
  Result<std::int64_t> version = schema_version(database_);
  if (!version) return version.error();
  summary.schema_version = *version;
  Result<Statement> run = database_.prepare(
      "SELECT id, name, created_ms, ended_ms, world, layout, command, environment, (SELECT count(*) FROM step), "
      "(SELECT min(step) FROM step), (SELECT max(step) FROM step), "
      "(SELECT time_ms FROM step ORDER BY step DESC LIMIT 1), (SELECT count(*) FROM finding) FROM run");
  if (!run) return run.error();
  const Status read = for_each_row(*run, [&](const Statement& row) {
    summary.info = {std::string(row.text(0)),
                    std::string(row.text(1)),
                    static_cast<std::uint32_t>(row.integer(4)),
                    parse_layout(row.text(5)),
                    std::string(row.text(6)),
                    std::string(row.text(7)),
                    row.integer(2)};
    summary.ended_ms = optional_integer(row, 3);
    summary.steps = static_cast<std::uint64_t>(row.integer(8));
    if (!row.is_null(9)) summary.first_step = static_cast<std::uint64_t>(row.integer(9));
    if (!row.is_null(10)) summary.last_step = static_cast<std::uint64_t>(row.integer(10));
    summary.updated_ms = optional_integer(row, 11);
    summary.findings = static_cast<std::uint64_t>(row.integer(12));
  });
  if (!read) return read;
  summary.live = WriterLock::held(folder_);
  summary.bytes = bytes_on_disk(folder_);
  return summary;
}

Result<std::int64_t> RunReader::change_counter() {
  return database_.integer("PRAGMA data_version");
}

Result<std::vector<MatrixEntry>> RunReader::matrices() {
  std::vector<MatrixEntry> entries;
  Result<Statement> query = database_.prepare("SELECT step, workers FROM matrix ORDER BY step");
  if (!query) return query.error();
  const Status read = for_each_row(*query, [&](const Statement& row) {
    entries.push_back({static_cast<std::uint64_t>(row.integer(0)), static_cast<std::uint32_t>(row.integer(1))});
  });
  if (!read) return read;
  return entries;
}

Result<CosineMatrix> RunReader::matrix(std::uint64_t step) {
  Result<Statement> query = database_.prepare("SELECT ranks, cosines FROM matrix WHERE step = ?");
  if (!query) return query.error();
  Result<bool> found = query->bind(1, static_cast<std::int64_t>(step)).step();
  if (!found) return found.error();
  if (!*found) return Status(StatusCode::kUnavailable, fmt::format("no cosine matrix of step {} is stored", step));
  CosineMatrix matrix;
  matrix.step = step;
  base::ByteReader ranks(query->blob(0));
  while (ranks.remaining() >= 4) matrix.ranks.push_back(ranks.u32());
  base::ByteReader cosines(query->blob(1));
  while (cosines.remaining() >= 4) matrix.cosines.push_back(cosines.f32());
  if (matrix.cosines.size() != matrix.ranks.size() * matrix.ranks.size()) {
    return Status(StatusCode::kCorrupt,
                  fmt::format("{}: the cosine matrix of step {} has {} entries for {} ranks", folder_.string(), step,
                              matrix.cosines.size(), matrix.ranks.size()));
  }
  return matrix;
}

Result<std::vector<Finding>> RunReader::findings() {
  std::vector<Finding> findings;
  Result<Statement> query = database_.prepare(
      "SELECT id, cause, ranks, first_step, last_step, certainty, confidence, parameters, evidence, message, remedy "
      "FROM finding ORDER BY certainty != 'certain', first_step, id");
  if (!query) return query.error();
  const Status read = for_each_row(*query, [&](const Statement& row) {
    Finding finding;
    finding.id = row.text(0);
    finding.cause = row.text(1);
    finding.ranks = list_of<std::uint32_t>(row.text(2));
    finding.first_step = static_cast<std::uint64_t>(row.integer(3));
    finding.last_step = static_cast<std::uint64_t>(row.integer(4));
    finding.certainty = row.text(5) == to_string(Certainty::kCertain) ? Certainty::kCertain : Certainty::kStatistical;
    finding.confidence = row.real(6).value_or(std::nan(""));
    finding.parameters = list_of<std::string>(row.text(7));
    finding.evidence = row.text(8);
    finding.message = row.text(9);
    finding.remedy = row.text(10);
    findings.push_back(std::move(finding));
  });
  if (!read) return read;
  return findings;
}

Result<std::map<std::uint32_t, std::string>> RunReader::configs() {
  std::map<std::uint32_t, std::string> configs;
  Result<Statement> query = database_.prepare("SELECT rank, json FROM config");
  if (!query) return query.error();
  const Status read = for_each_row(
      *query, [&](const Statement& row) { configs[static_cast<std::uint32_t>(row.integer(0))] = row.text(1); });
  if (!read) return read;
  return configs;
}

Result<std::map<std::uint32_t, Health>> RunReader::health() {
  std::map<std::uint32_t, Health> all;
  Result<Statement> query = database_.prepare("SELECT rank, enabled, reason, counts, last_problem FROM health");
  if (!query) return query.error();
  const Status read = for_each_row(*query, [&](const Statement& row) {
    Health& health = all[static_cast<std::uint32_t>(row.integer(0))];
    health.enabled = row.integer(1) != 0;
    if (!row.text(2).empty()) health.reason = Status(StatusCode::kInternal, std::string(row.text(2)));
    health.last_problem = row.text(4);
    const json counts = parse_json(row.text(3));
    health.steps_begun = field(counts, "steps_begun", health.steps_begun);
    health.steps_sent = field(counts, "steps_sent", health.steps_sent);
    health.steps_analysed = field(counts, "steps_analysed", health.steps_analysed);
    health.drops_queue = field(counts, "drops_queue", health.drops_queue);
    health.drops_late = field(counts, "drops_late", health.drops_late);
    health.missing_records = field(counts, "missing_records", health.missing_records);
    health.rejected_records = field(counts, "rejected_records", health.rejected_records);
    health.rejected_calls = field(counts, "rejected_calls", health.rejected_calls);
    health.observer_failures = field(counts, "observer_failures", health.observer_failures);
    health.bytes_sent = field(counts, "bytes_sent", health.bytes_sent);
  });
  if (!read) return read;
  return all;
}

Result<std::optional<std::string>> RunReader::document(const std::string& name) {
  Result<Statement> query = database_.prepare("SELECT json FROM document WHERE name = ?");
  if (!query) return query.error();
  Result<bool> found = query->bind(1, name).step();
  if (!found) return found.error();
  return *found ? std::optional(std::string(query->text(0))) : std::nullopt;
}

RunReader::Snapshot::Snapshot(RunReader& reader) : reader_(reader), status_(reader.database_.exec("BEGIN")) {}

RunReader::Snapshot::~Snapshot() {
  if (status_) (void)reader_.database_.exec("COMMIT");
}

}  // namespace lockstep::store
