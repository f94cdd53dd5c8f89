// What a run is, apart from its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/record.h"
#include "lockstep/stats.h"

namespace lockstep::store {

struct RunInfo {
  std::string id;    // made when empty
  std::string name;  // the folder's when empty
  std::uint32_t world = 1;
  RecordLayout layout;
  std::string command;
  std::string environment = "{}";  // JSON object: name -> text or number
  std::int64_t created_ms = 0;     // since the epoch, UTC; now when 0
};

// What healthy workers would show of one metric in one step, and the band around it.
struct Expectation {
  std::string metric;  // a name of kStepMetrics
  Metric value, low, high;
};

// Names of the documents that the report knows. Others may be stored beside them.
inline constexpr const char* kAuditDocument = "audit";        // docs/page_data.md, audit
inline constexpr const char* kStudyDocument = "study";        // docs/page_data.md, study
inline constexpr const char* kLabsDocument = "labs";          // docs/page_data.md, labs
inline constexpr const char* kExpectedDocument = "expected";  // metric -> {"level", "text"} of the expectations
inline constexpr const char* kStoreDocument = "store";        // the writer's own counts

}  // namespace lockstep::store
