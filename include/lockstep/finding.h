// A finding: what went wrong, on which ranks, since when, how sure we are and what to change.
//
// Detectors make findings; the store, the report and every exporter carry them unchanged. Cause names are stable
// (docs/findings.md lists them): new ones may come, none is renamed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// kCertain: follows from hashes or fingerprints. kStatistical: an alarm against the null model, at a stated rate.
enum class Certainty : std::uint8_t { kCertain = 0, kStatistical = 1 };

// Stable lower-case name, for the store and JSON.
inline const char* to_string(Certainty certainty) noexcept {
  return certainty == Certainty::kCertain ? "certain" : "statistical";
}

struct Finding {
  std::string id;     // unique in its run and stable while the finding grows: the same id replaces the older version
  std::string cause;  // e.g. "sync.missing"
  std::vector<std::uint32_t> ranks;
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;  // newest step that showed it
  Certainty certainty = Certainty::kStatistical;
  double confidence = 0;                // 0 to 1
  std::vector<std::string> parameters;  // names, where known
  std::string evidence = "{}";          // JSON object: the numbers behind it
  std::string message;                  // one sentence that a tired person understands
  std::string remedy;                   // what to change
};

}  // namespace lockstep
