#include "detect/data_skew.h"

#include <fmt/format.h>

#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"
#include "detect/rank_alarms.h"

namespace lockstep::detect {
namespace {

// Losses closer than this part of their mean are the same loss.
constexpr double kTie = 1e-4;

struct RankLoss {
  std::uint32_t rank = 0;
  double loss = 0;
  double weight = 1;  // tokens, where all ranks gave them
};

std::vector<RankLoss> losses_of(const Observation& now) {
  std::vector<RankLoss> losses;
  bool tokens = true;
  for (std::size_t i = 0; i < now.stats.ranks.size(); ++i) {
    if (!now.stats.ranks[i].loss) continue;
    const Record& record = now.step.records[i];
    tokens = tokens && record.tokens > 0;
    losses.push_back({record.rank, *now.stats.ranks[i].loss, static_cast<double>(record.tokens)});
  }
  if (!tokens) {
    for (RankLoss& loss : losses) loss.weight = 1;
  }
  return losses;
}

}  // namespace

// A mean over t tokens has variance in 1/t, so the distance from the others' mean is divided by its own spread; then
// few tokens make a rank neither more nor less likely to come first.
void DataSkew::on_step(const Observation& now, Symptoms& out) {
  const std::vector<RankLoss> losses = losses_of(now);
  if (losses.size() < 2) return;
  double weight = 0;
  double sum = 0;
  double inverse = 0;
  for (const RankLoss& one : losses) {
    weight += one.weight;
    sum += one.weight * one.loss;
    inverse += 1 / one.weight;
  }
  const double mean = sum / weight;
  std::vector<Placed> placed;
  for (const RankLoss& one : losses) {
    const double others_weight = weight - one.weight;
    const double others = (sum - one.weight * one.loss) / others_weight;
    const double spread = std::sqrt(1 / one.weight + 1 / others_weight);
    placed.push_back({one.rank, (one.loss - others) / spread});
    if (others != 0) offsets_.add(one.rank, now.step.step, one.loss / others - 1);
  }
  const double typical_spread = std::sqrt(inverse / static_cast<double>(losses.size()));
  test_.add(now.step.step, placed, kTie * std::abs(mean) / typical_spread,
            evidence_threshold(now.thresholds, losses.size()));
  const double smallest = now.thresholds.min_loss_offset;
  const RankAlarms alarms =
      material_alarms(test_, offsets_, [smallest](double offset) { return std::abs(offset) >= smallest; });
  if (!alarms.any()) return;

  Symptom symptom;
  symptom.cause = cause::kDataSkew;
  symptom.ranks = alarms.ranks;
  symptom.first_step = alarms.first_step;
  symptom.certainty = Certainty::kStatistical;
  symptom.confidence = confidence_of(alarms.evidence, losses.size());
  symptom.ranks_are_current = true;
  symptom.evidence = {{"loss_offset", alarms.effects}, {"mean_loss", mean}, {"evidence", alarms.evidence}};
  const std::string who = name_ranks(alarms.ranks, now.step.world);
  symptom.message =
      losses.size() == 2
          ? fmt::format("the losses of the two ranks stay {:.0f} % apart: they do not train on the same kind of data",
                        100 * std::abs(alarms.effect()))
          : fmt::format("the loss of {} stays {:.0f} % {} that of the others: it trains on another kind of data", who,
                        100 * std::abs(alarms.effect()), alarms.effect() > 0 ? "above" : "below");
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
