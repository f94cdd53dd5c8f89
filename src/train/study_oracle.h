// Predictions of a study that have no free parameter, each beside its measurement. Internal to study_analysis.
//
// Replicated reading, c the mean cosine of ranks on independent batches: 1, 0.75 + 0.25 c, c (eight workers). Tested
// twice in S1-2: with c measured in the same run (rank 0 against the others), which is an identity up to the sketch's
// error, and with c of S1-3, which also asks that c does not depend on the setting's own weights. Both readings: the
// share of samples read.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "train/study_analysis.h"

namespace lockstep::train {

// Complete runs of an arm by base seed.
using ArmRuns = std::map<std::uint64_t, const StudyRun*>;
ArmRuns runs_of_arm(const StudyOutcome& outcome, const StudyArm& arm);

// Values of a metric of two arms, for the seeds that have both.
struct PairedValues {
  std::vector<double> first, second;
};
PairedValues paired_values(const ArmRuns& first, std::string_view first_metric, const ArmRuns& second,
                           std::string_view second_metric);

// Empty where the plan has nothing to check. With dropout ranks on equal batches differ, so only coverage is checked.
std::vector<OracleCheck> check_oracle(const StudyOutcome& outcome);

}  // namespace lockstep::train
