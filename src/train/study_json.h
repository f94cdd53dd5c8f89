// A study as JSON: what `lockstep study --json` and summary.json hold. docs/study.md describes the fields.
//
// The top level is the stable result; "study" beside it is the same in the shape that the report page reads, so that
// the file is a page document by itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/study_analysis.h"

namespace lockstep::train {

inline constexpr int kStudyJsonVersion = 1;

// What the study ran on, for the reader.
struct StudyDescription {
  std::string created;  // ISO 8601
  std::string model, data;
  std::int64_t parameters = 0;
};

nlohmann::json study_json(const StudyOutcome& outcome, const StudyAnalysis& analysis,
                          const std::vector<std::string>& conclusion, const StudyDescription& description);

}  // namespace lockstep::train
