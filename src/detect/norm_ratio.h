// Each rank's gradient norm against the median of the others', on a log scale: free of the common scale of the step,
// so that warm-up, clipping and learning-rate spikes cancel.
#pragma once

#include <cmath>
#include <vector>

#include "detect/detector.h"
#include "detect/position_test.h"
#include "detect/rank_history.h"

namespace lockstep::detect {

// Ranks with a non-zero gradient, all of whose elements are finite.
inline std::vector<Placed> log_norms(const Observation& now) {
  std::vector<Placed> out;
  for (std::size_t i = 0; i < now.stats.ranks.size(); ++i) {
    const Metric norm = now.stats.ranks[i].norm;
    if (!norm || !(*norm > 0) || !std::isfinite(*norm) || now.step.records[i].gradient.nonfinite > 0) continue;
    out.push_back({now.stats.ranks[i].rank, std::log(*norm)});
  }
  return out;
}

inline std::vector<Placed> ratios_to_others(const std::vector<Placed>& values) {
  std::vector<Placed> out;
  std::vector<double> others;
  for (const Placed& one : values) {
    others.clear();
    for (const Placed& other : values) {
      if (other.rank != one.rank) others.push_back(other.value);
    }
    if (!others.empty()) out.push_back({one.rank, one.value - median(others)});
  }
  return out;
}

}  // namespace lockstep::detect
