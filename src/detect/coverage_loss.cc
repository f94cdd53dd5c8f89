#include "detect/coverage_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {

// More shards than ranks: those that nobody takes are never read.
void CoverageLoss::from_sampler(const Observation& now, Symptoms& out) {
  Ranks ranks;
  std::uint32_t replicas = 0;
  for (const Record& record : now.step.records) {
    if (!record.sampler.observed || record.sampler.replicas <= now.step.world) continue;
    ranks.push_back(record.rank);
    replicas = std::max(replicas, record.sampler.replicas);
  }
  if (ranks.empty()) return;
  Symptom symptom;
  symptom.cause = cause::kCoverageLoss;
  symptom.ranks = ranks;
  symptom.first_step = now.step.step;
  symptom.evidence = {{"replicas", replicas}, {"world", now.step.world}};
  symptom.message = fmt::format("the samplers split the data {} ways but only {} ranks read it: the rest is never read",
                                replicas, now.step.world);
  out.push_back(std::move(symptom));
}

void CoverageLoss::on_step(const Observation& now, Symptoms& out) {
  from_sampler(now, out);
  largest_step_ = std::max(largest_step_, now.audit.step_samples);
  if (!now.audit.closed || !now.audit.closed->complete) return;
  const audit::EpochCoverage& epoch = *now.audit.closed;
  const double size = static_cast<double>(epoch.dataset_size);
  if (size == 0) return;
  const double distinct = static_cast<double>(epoch.distinct);
  // Dropping the last batch, finding the boundary a step late, estimating beyond the table's memory, natural twins.
  double allowed = 2 * static_cast<double>(largest_step_);
  allowed += size * (now.thresholds.coverage_tolerance + now.thresholds.natural_duplicates);
  if (now.audit.kept_fraction < 1) allowed += 6 * std::sqrt(distinct / now.audit.kept_fraction);
  if (size - distinct <= allowed) return;

  Symptom symptom;
  symptom.cause = cause::kCoverageLoss;
  symptom.ranks = all_ranks(now.step.world);
  symptom.first_step = epoch.first_step;
  symptom.evidence = {{"epoch", epoch.epoch},
                      {"dataset_size", epoch.dataset_size},
                      {"distinct_samples", epoch.distinct},
                      {"consumed_samples", epoch.consumed}};
  symptom.message = fmt::format("epoch {} read {} of {} samples: {:.1f} % of the data set was never seen", epoch.epoch,
                                epoch.distinct, epoch.dataset_size, 100 * (1 - distinct / size));
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
