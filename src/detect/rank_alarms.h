// From the alarms of a position test to the ranks, onset and size that a symptom states. Also the one place where the
// false-alarm rate is shared out among the statistical detectors.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "detect/position_test.h"
#include "detect/rank_history.h"
#include "detect/symptom.h"
#include "detect/thresholds.h"

namespace lockstep::detect {

// Tests that share the rate: loss, norm, direction, tokens, bursts.
inline constexpr double kStatisticalTests = 5;

// Threshold of the evidence of one rank in one test. Two ranks are one test: each mirrors the other.
double evidence_threshold(const Thresholds& thresholds, std::size_t workers);

struct RankAlarms {
  Ranks ranks;
  std::uint64_t first_step = 0;
  double evidence = 0;          // of the strongest
  std::vector<double> effects;  // per rank: median deviation since the onset

  bool any() const noexcept { return !ranks.empty(); }
  double effect() const noexcept { return effects.empty() ? 0 : effects.front(); }
};

// The alarms whose effect `matters`.
RankAlarms material_alarms(const PositionTest& test, const RankHistory& history,
                           const std::function<bool(double effect)>& matters);

// 1 - (false alarms per step that evidence of this size allows).
double confidence_of(double evidence, std::size_t workers);

}  // namespace lockstep::detect
