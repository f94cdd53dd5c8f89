#include "detect/sdc_suspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"
#include "detect/norm_ratio.h"
#include "detect/rank_alarms.h"

namespace lockstep::detect {
namespace {

constexpr double kTailShare = 0.01;   // of healthy ratios beyond the quantile
constexpr double kTailIndex = 1.5;    // heaviest tail that healthy norms are allowed
constexpr double kQuietFactor = 0.9;  // 0.99 * 0.9 + E[tail] = 0.1: the mean of the factors stays below 1
constexpr std::size_t kHistory = 4096;
constexpr std::size_t kEnough = 400;  // ratios before a quantile of 99 % is believed
const double kFirstQuantile = std::log(10.0);
const double kLeastQuantile = std::log(2.0);
constexpr std::uint64_t kQuietSteps = 50;  // after which a burst is over

constexpr double kAlpha = 0.05;  // arXiv 2604.00726
constexpr std::uint64_t kSkipped = 10;
constexpr std::uint64_t kWarmup = 40;

}  // namespace

bool UpdateJump::add(double update_rms, double norm) {
  const bool first = !last_rms_;
  const double jump = first ? 0 : std::abs(update_rms - *last_rms_);
  const double growth = first ? 0 : std::max(0.0, norm - *last_norm_);
  last_rms_ = update_rms;
  last_norm_ = norm;
  if (first) return false;
  ++count_;
  if (count_ <= kWarmup) {
    sum_ += jump;
    return false;
  }
  const double mu = sum_ / static_cast<double>(kWarmup);
  return count_ > kSkipped && growth > 0 && jump > mu / (kAlpha * std::sqrt(growth));
}

// Of the ratios above 1: the other half of the ranks lies below.
double SdcSuspect::quantile() const {
  if (history_.size() < kEnough) return kFirstQuantile;
  std::vector<double> sorted(history_.begin(), history_.end());
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(sorted.size()));
  std::nth_element(sorted.begin(), at, sorted.end());
  return std::max(*at, kLeastQuantile);
}

void SdcSuspect::on_step(const Observation& now, Symptoms& out) {
  bool update_jumped = false;
  if (!now.step.records.empty() && now.step.records.front().update_rms >= 0 && now.stats.mean_norm) {
    update_jumped = update_.add(now.step.records.front().update_rms, *now.stats.mean_norm);
  }
  const std::vector<Placed> norms = log_norms(now);
  if (norms.size() < 2) return;
  const double start = quantile();
  const double threshold = 2 * evidence_threshold(now.thresholds, norms.size());  // two tests share the rate
  Ranks ranks;
  std::uint64_t first_step = now.step.step;
  double largest = 0;
  std::uint64_t steps = 0;
  for (const Placed& ratio : ratios_to_others(norms)) {
    const double tail = ratio.value <= start ? 1 : kTailShare * std::exp(-kTailIndex * (ratio.value - start));
    if (tail > 1e-3) history_.push_back(ratio.value);
    Burst& burst = bursts_[ratio.rank];
    burst.evidence = std::min((burst.evidence + 1) * (tail < 1 ? 0.5 / std::sqrt(tail) : kQuietFactor), 10 * threshold);
    if (tail == 1) continue;
    if (burst.steps == 0 || now.step.step > burst.last_step + kQuietSteps)
      burst = {burst.evidence, now.step.step, 0, 0, 0};
    burst.last_step = now.step.step;
    burst.largest = std::max(burst.largest, ratio.value);
    ++burst.steps;
    if (tail > 1 / threshold && burst.evidence < threshold) continue;
    ranks.push_back(ratio.rank);
    first_step = std::min(first_step, burst.first_step);
    largest = std::max(largest, burst.largest);
    steps = std::max(steps, burst.steps);
  }
  while (history_.size() > kHistory) history_.pop_front();
  if (ranks.empty()) return;

  Symptom symptom;
  symptom.cause = cause::kSdcSuspect;
  symptom.ranks = ranks;
  symptom.first_step = first_step;
  symptom.certainty = Certainty::kStatistical;
  symptom.confidence = 1 - now.thresholds.false_alarms_per_step;
  symptom.evidence = {{"largest_ratio", std::exp(largest)},
                      {"burst_steps", steps},
                      {"healthy_ratio_99", std::exp(start)},
                      {"update_jumped", update_jumped}};
  symptom.message =
      fmt::format("{} produced a gradient {:.3g} times as long as the others', in {} step{}, which no batch explains",
                  name_ranks(ranks, now.step.world), std::exp(largest), steps, steps == 1 ? "" : "s");
  out.push_back(std::move(symptom));
}

}  // namespace lockstep::detect
