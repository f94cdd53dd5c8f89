// What a study found, in words, from its numbers alone: also where that differs from what the authors expect.
#pragma once

#include <string>
#include <vector>

#include "train/study_analysis.h"

namespace lockstep::train {

// One paragraph per entry, plain text.
std::vector<std::string> conclude(const StudyOutcome& outcome, const StudyAnalysis& analysis);

}  // namespace lockstep::train
