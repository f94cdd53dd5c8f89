#include "detect/impossible_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "detect/ballot.h"
#include "detect/causes.h"

namespace lockstep::detect {
namespace {

constexpr double kRounding = 0.01;  // relative; sums over 16-bit elements
constexpr std::uint64_t kInARow = 2;
constexpr std::uint64_t kConvention = 3;  // judged steps that show whether the host sums or averages

// |g|^2 lies between max^2 and count max^2, whatever g is.
bool impossible(const GradientRecord& gradient) {
  if (!gradient.observed || gradient.count == 0 || !std::isfinite(gradient.sum_squares)) return false;
  const double max_square = gradient.max_abs * gradient.max_abs;
  const double most = max_square * static_cast<double>(gradient.count);
  return max_square > gradient.sum_squares * (1 + kRounding) + 1e-300 ||
         gradient.sum_squares > most * (1 + kRounding) + 1e-300;
}

}  // namespace

void ImpossibleNorm::check_records(const Observation& now, Symptoms& out) {
  Ranks ranks;
  for (const Record& record : now.step.records) {
    // An import of logs has norms without elements; there the largest element is not known.
    const bool bare = record.gradient.max_abs == 0 && record.reduced.max_abs == 0;
    if (!bare && (impossible(record.gradient) || impossible(record.reduced))) ranks.push_back(record.rank);
  }
  if (ranks.empty()) return;
  Symptom symptom;
  symptom.cause = cause::kImpossibleNorm;
  symptom.ranks = ranks;
  symptom.first_step = now.step.step;
  symptom.message =
      fmt::format("{} reports a gradient norm below its largest element or above what its elements can add up to",
                  name_ranks(ranks, now.step.world));
  out.push_back(std::move(symptom));
}

// The norm of a mean is at most the mean of the norms. A host that sums instead has up to N times that, from the start
// and with factor N; clipping shows as a norm that stays the same. Anything else above the bound is impossible.
void ImpossibleNorm::check_mean(const Observation& now, Symptoms& out) {
  if (!now.stats.reduced_norm || !now.stats.norm_mean || !(*now.stats.norm_mean > 0)) return;
  if (now.stats.missing > 0 || now.stats.ranks.size() != now.step.world || now.step.world < 2) return;
  const double n = now.step.world;
  const double norm = *now.stats.reduced_norm;
  const bool clipped = last_norm_ && std::abs(norm / *last_norm_ - 1) < 1e-4;
  last_norm_ = norm;
  const double ratio = norm / *now.stats.norm_mean;
  // Sketches give the factor itself; without them a sum of gradients that do not oppose each other has ratio >=
  // sqrt(N).
  const bool measured = now.stats.reduction_scale.has_value();
  const bool sum_like = measured ? std::abs(*now.stats.reduction_scale / n - 1) < kRounding
                                 : ratio > 0.95 * std::sqrt(n) && ratio < n * (1 + kRounding);
  if (judged_ < kConvention && !clipped) {
    ++judged_;
    is_sum_ = is_sum_ || sum_like;
  }
  const double bound = is_sum_ ? n : 1;
  const bool above =
      ratio > bound * (1 + kRounding) && !(clipped && ratio <= n) && !(sum_like && judged_ < kConvention);
  if (!above) {
    above_ = 0;
    return;
  }
  if (above_++ == 0) first_step_ = now.step.step;
  if (above_ < kInARow && ratio <= n * (1 + kRounding)) return;
  Symptom symptom;
  symptom.cause = cause::kImpossibleNorm;
  symptom.ranks = all_ranks(now.step.world);
  symptom.first_step = first_step_;
  symptom.evidence = {{"reduced_norm", norm}, {"mean_of_norms", *now.stats.norm_mean}, {"ratio", ratio}};
  symptom.message = fmt::format(
      "the averaged gradient is {:.3g} times as long as the ranks' own on average, which no average can be: it was "
      "reduced twice or summed",
      ratio);
  out.push_back(std::move(symptom));
}

void ImpossibleNorm::on_step(const Observation& now, Symptoms& out) {
  check_records(now, out);
  check_mean(now, out);
}

}  // namespace lockstep::detect
