#include "report/run_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "store/schema.h"

namespace lockstep::report {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / store::kRunFile, error);
}

bool inside(const fs::path& folder, const fs::path& parent) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) return false;
  const auto mismatch = std::mismatch(parent.begin(), parent.end(), real.begin(), real.end());
  return mismatch.first == parent.end();
}

std::vector<fs::path> runs_under(const fs::path& path) {
  if (is_run(path)) return {path};
  std::vector<fs::path> runs;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (is_run(entry->path()) && inside(entry->path(), path)) runs.push_back(entry->path());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

}  // namespace

Result<RunCatalog> RunCatalog::create(const std::vector<fs::path>& paths) {
  RunCatalog catalog;
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (error || !fs::is_directory(real, error)) {
      return Status(StatusCode::kUnavailable, fmt::format("{} is no folder", path.string()));
    }
    catalog.paths_.push_back(real);
  }
  return catalog;
}

std::vector<CatalogEntry> RunCatalog::list() const {
  std::vector<CatalogEntry> entries;
  std::set<fs::path> seen;
  std::set<std::string> names;
  for (const fs::path& path : paths_) {
    for (const fs::path& folder : runs_under(path)) {
      if (!seen.insert(folder).second) continue;
      std::string name = folder.filename().string();
      if (names.contains(name)) name = folder.parent_path().filename().string() + "/" + name;
      if (!names.insert(name).second) continue;
      entries.push_back({std::move(name), folder});
    }
  }
  return entries;
}

std::optional<CatalogEntry> RunCatalog::find(const std::string& name) const {
  for (CatalogEntry& entry : list()) {
    if (entry.name == name) return std::move(entry);
  }
  return std::nullopt;
}

}  // namespace lockstep::report
