// One line of a per-rank log (docs/import.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::store {

// NaN and infinities are data here: a value that is present may be non-finite.
struct ImportLine {
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
  std::optional<double> loss;  // null or absent: not observed
  std::optional<double> norm;  // null on micro-steps that do not synchronise
  std::optional<double> reduced_norm;
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> batch;  // one fingerprint per batch id
};

inline constexpr std::uint32_t kMaxImportRank = 65535;

// The message of the error says what is wrong with the line, without its place.
Result<ImportLine> parse_import_line(std::string_view text);

}  // namespace lockstep::store
