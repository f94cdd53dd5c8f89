#include "detect/rank_alarms.h"

#include <algorithm>

namespace lockstep::detect {
namespace {

double processes(std::size_t workers) {
  return kStatisticalTests * (workers <= 2 ? 1 : static_cast<double>(workers));
}

}  // namespace

double evidence_threshold(const Thresholds& thresholds, std::size_t workers) {
  return processes(workers) / thresholds.false_alarms_per_step;
}

RankAlarms material_alarms(const PositionTest& test, const RankHistory& history,
                           const std::function<bool(double effect)>& matters) {
  RankAlarms out;
  for (const PositionAlarm& alarm : test.alarms()) {
    const double effect = history.since(alarm.rank, alarm.first_step);
    if (!matters(effect)) continue;
    out.first_step = out.any() ? std::min(out.first_step, alarm.first_step) : alarm.first_step;
    out.ranks.push_back(alarm.rank);
    out.effects.push_back(effect);
    out.evidence = std::max(out.evidence, alarm.evidence);
  }
  return out;
}

double confidence_of(double evidence, std::size_t workers) {
  return std::clamp(1 - processes(workers) / evidence, 0.0, 1.0);
}

}  // namespace lockstep::detect
