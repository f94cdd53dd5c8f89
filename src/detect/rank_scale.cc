#include "detect/rank_scale.h"

#include <fmt/format.h>

#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"
#include "detect/norm_ratio.h"
#include "detect/rank_alarms.h"

namespace lockstep::detect {
namespace {

// Norms closer than this (relative) are the same norm.
constexpr double kTie = 1e-4;
// A gradient of zero may be a batch without response tokens; where tokens are not told, three in a row are not.
constexpr std::uint64_t kZeroSteps = 3;

// What a factor usually means, for the message. Tolerance 10 %: the noise of a norm.
std::string guess(double factor, std::uint32_t world, std::uint32_t micro_batches) {
  const auto near = [factor](double candidate) { return std::abs(std::log(factor / candidate)) < 0.1; };
  if (world > 2 && near(1.0 / world))
    return fmt::format(", about 1/{}: divided by the number of ranks once more", world);
  if (world > 2 && near(world)) return fmt::format(", about {}: not divided by the number of ranks", world);
  if (micro_batches > 1 && near(micro_batches)) {
    return fmt::format(", about {}: not divided by the accumulation steps", micro_batches);
  }
  if (micro_batches > 1 && near(1.0 / micro_batches)) {
    return fmt::format(", about 1/{}: divided by the accumulation steps once more", micro_batches);
  }
  return "";
}

}  // namespace

// A zero gradient beside non-zero ones: certain, because no noise makes it.
void RankScale::find_zero(const Observation& now, Symptoms& out) {
  bool others = false;
  Ranks ranks;
  std::uint64_t first_step = now.step.step;
  for (const Record& record : now.step.records) {
    const bool sound = record.gradient.observed && record.gradient.count > 0 && record.gradient.nonfinite == 0;
    const bool zero = sound && record.gradient.sum_squares == 0;
    others = others || (sound && !zero);
    if (!zero) {
      zeros_.erase(record.rank);
      continue;
    }
    Zeros& run = zeros_[record.rank];
    if (run.steps++ == 0) run.first_step = now.step.step;
    if (record.tokens > 0 || run.steps >= kZeroSteps) {
      ranks.push_back(record.rank);
      first_step = std::min(first_step, run.first_step);
    }
  }
  if (!others || ranks.empty()) return;
  Symptom symptom;
  symptom.cause = cause::kRankMismatch;
  symptom.ranks = ranks;
  symptom.first_step = first_step;
  symptom.evidence = {{"factor", 0.0}};
  symptom.message =
      fmt::format("the gradient of {} is exactly zero while other ranks have one: its samples teach nothing",
                  name_ranks(ranks, now.step.world));
  symptom.remedy =
      "look for a loss that is detached, masked out or skipped on that rank; its optimizer step still counts it";
  out.push_back(std::move(symptom));
}

void RankScale::on_step(const Observation& now, Symptoms& out) {
  find_zero(now, out);
  const std::vector<Placed> norms = log_norms(now);
  if (norms.size() < 2) return;
  for (const Placed& ratio : ratios_to_others(norms)) ratios_.add(ratio.rank, now.step.step, ratio.value);
  test_.add(now.step.step, norms, kTie, evidence_threshold(now.thresholds, norms.size()));
  const double smallest = std::log(now.thresholds.min_norm_factor);
  const RankAlarms alarms =
      material_alarms(test_, ratios_, [smallest](double ratio) { return std::abs(ratio) >= smallest; });
  if (!alarms.any()) return;

  Symptom symptom;
  symptom.cause = cause::kRankMismatch;
  symptom.ranks = alarms.ranks;
  symptom.first_step = alarms.first_step;
  symptom.certainty = Certainty::kStatistical;
  symptom.confidence = confidence_of(alarms.evidence, norms.size());
  symptom.ranks_are_current = true;
  const double factor = std::exp(alarms.effect());
  std::vector<double> factors;
  for (const double effect : alarms.effects) factors.push_back(std::exp(effect));
  symptom.evidence = {{"factor", factors}, {"evidence", alarms.evidence}};
  const std::string who = name_ranks(alarms.ranks, now.step.world);
  const std::string meaning = guess(factor, now.step.world, now.step.records.front().loss_count);
  symptom.message = norms.size() == 2 ? fmt::format("the gradient norms of the two ranks stay a factor {:.3g} apart{}",
                                                    std::max(factor, 1 / factor), meaning)
                                      : fmt::format("the gradient of {} stays {:.3g} times as long as the others'{}",
                                                    who, factor, meaning);
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
