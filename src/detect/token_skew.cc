#include "detect/token_skew.h"

#include <fmt/format.h>

#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"
#include "detect/norm_ratio.h"
#include "detect/rank_alarms.h"

namespace lockstep::detect {
namespace {

constexpr double kTie = 1e-4;

}  // namespace

// Token counts that vary from step to step are normal and average out; a rank that always has fewer gives each of its
// tokens more weight for good. A host that says it weights by tokens has no such bias.
void TokenSkew::on_step(const Observation& now, Symptoms& out) {
  std::vector<Placed> tokens;
  for (const Record& record : now.step.records) {
    if (record.host.token_weighted) return;
    if (record.tokens > 0) tokens.push_back({record.rank, std::log(static_cast<double>(record.tokens))});
  }
  if (tokens.size() < 2) return;
  for (const Placed& ratio : ratios_to_others(tokens)) ratios_.add(ratio.rank, now.step.step, ratio.value);
  if (now.stats.loss_mean && now.stats.token_loss && *now.stats.token_loss != 0) {
    biases_.add(0, now.step.step, *now.stats.loss_mean / *now.stats.token_loss - 1);
  }
  test_.add(now.step.step, tokens, kTie, evidence_threshold(now.thresholds, tokens.size()));
  const double smallest = std::log(now.thresholds.min_token_factor);
  const RankAlarms alarms =
      material_alarms(test_, ratios_, [smallest](double ratio) { return std::abs(ratio) >= smallest; });
  if (!alarms.any()) return;

  Symptom symptom;
  symptom.cause = cause::kTokenSkew;
  symptom.ranks = alarms.ranks;
  symptom.first_step = alarms.first_step;
  symptom.certainty = Certainty::kStatistical;
  symptom.confidence = confidence_of(alarms.evidence, tokens.size());
  symptom.ranks_are_current = true;
  std::vector<double> factors;
  for (const double effect : alarms.effects) factors.push_back(std::exp(effect));
  const double bias = biases_.since(0, alarms.first_step);
  symptom.evidence = {{"token_factor", factors}, {"loss_bias", bias}, {"evidence", alarms.evidence}};
  const double weight = std::exp(-alarms.effect());
  symptom.message = fmt::format(
      "{} always trains on {:.2g} times the tokens of the others, so in a mean of means each of its tokens weighs "
      "{:.2g} "
      "times as much; the averaged loss is off by {:.1f} %",
      name_ranks(alarms.ranks, now.step.world), 1 / weight, weight, 100 * bias);
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
