// The runs that a server shows. A name from outside is only ever compared with this list, never made into a path.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::report {

struct CatalogEntry {
  std::string name;
  std::filesystem::path folder;
};

class RunCatalog {
 public:
  // Each path is a run folder, or a folder whose direct children are run folders. kUnavailable names one that is not
  // there.
  static Result<RunCatalog> create(const std::vector<std::filesystem::path>& paths);

  // Looks at the disk each time, so that new runs appear. Names are unique: of equal ones, later ones get their
  // parent's name in front. Links that lead out of the given folders are left out.
  std::vector<CatalogEntry> list() const;
  std::optional<CatalogEntry> find(const std::string& name) const;

 private:
  std::vector<std::filesystem::path> paths_;  // canonical
};

}  // namespace lockstep::report
