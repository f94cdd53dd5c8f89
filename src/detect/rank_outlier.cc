#include "detect/rank_outlier.h"

#include <fmt/format.h>

#include "detect/ballot.h"
#include "detect/causes.h"
#include "detect/norm_ratio.h"
#include "detect/rank_alarms.h"

namespace lockstep::detect {
namespace {

constexpr double kTie = 1e-4;  // cosines closer than this are the same cosine

}  // namespace

// Two ranks have one cosine between them, which says nothing of either: the ties of the test see to that.
void RankOutlier::on_step(const Observation& now, Symptoms& out) {
  std::vector<Placed> cosines;
  for (const RankStats& rank : now.stats.ranks) {
    if (rank.leave_one_out) cosines.push_back({rank.rank, *rank.leave_one_out});
  }
  if (cosines.size() < 3) return;
  for (const Placed& gap : ratios_to_others(cosines)) gaps_.add(gap.rank, now.step.step, gap.value);
  test_.add(now.step.step, cosines, kTie, evidence_threshold(now.thresholds, cosines.size()));
  const double smallest = now.thresholds.min_cosine_gap;
  const RankAlarms alarms = material_alarms(test_, gaps_, [smallest](double gap) { return -gap >= smallest; });
  if (!alarms.any()) return;

  Symptom symptom;
  symptom.cause = cause::kRankOutlier;
  symptom.ranks = alarms.ranks;
  symptom.first_step = alarms.first_step;
  symptom.certainty = Certainty::kStatistical;
  symptom.confidence = confidence_of(alarms.evidence, cosines.size());
  symptom.ranks_are_current = true;
  symptom.evidence = {{"cosine_gap", alarms.effects}, {"evidence", alarms.evidence}};
  symptom.message =
      fmt::format("the gradient of {} keeps pointing away from the others': its cosine with them is {:.2g} lower",
                  name_ranks(alarms.ranks, now.step.world), -alarms.effect());
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
