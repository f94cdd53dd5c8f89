#include "stats/reduction_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::stats {
namespace {

// A G farther from lambda times the mean than this is not the mean, and its norm is no norm of the mean. Reductions in
// bf16 stay below about 1e-3 sqrt(N) for N roundings in a ring.
constexpr double kGapOfAnotherVector = 0.05;

// Sketches travel as float: lambda is known to about this, or to the gap where rounding made G itself less exact.
constexpr double kScaleResolution = 1e-6;

// A factor of which ignoring would change a pooled cosine in the third digit.
constexpr double kScaleOff = 1e-3;

// Distance of a factor from one that treats halving and doubling alike; negative factors are farther than all others.
double distance_from_one(double factor) noexcept {
  return factor > 0 ? std::abs(std::log(factor)) : std::numeric_limits<double>::max();
}

// The median, because one rank with a corrupted G must not move the factor of the others. Of two middle values the one
// nearer to one, so that among two ranks the damaged one is not taken for the truth.
double common_factor(std::vector<double> factors) {
  std::sort(factors.begin(), factors.end());
  const double low = factors[(factors.size() - 1) / 2];
  const double high = factors[factors.size() / 2];
  return distance_from_one(low) <= distance_from_one(high) ? low : high;
}

double product(std::span<const float> a, const std::vector<double>& b) noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double gap_from(std::span<const float> reduced, const std::vector<double>& mean, double factor, double norm) noexcept {
  double square = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double difference = reduced[i] - factor * mean[i];
    square += difference * difference;
  }
  return std::sqrt(square) / norm;
}

}  // namespace

std::vector<double> fold(std::span<const double> sketch, std::size_t k) {
  std::vector<double> folded(k, 0.0);
  for (std::size_t begin = 0; begin < sketch.size(); begin += k) {
    for (std::size_t b = 0; b < k; ++b) folded[b] += sketch[begin + b];
  }
  return folded;
}

ReductionCheck check_reduction(const StepView& view, const SketchMoments& moments) {
  ReductionCheck check;
  check.gaps.resize(view.ranks.size());
  if (!view.every_rank_sound || moments.rows.size() != view.ranks.size() || view.reduced_dim == 0) return check;

  std::vector<double> mean = fold(moments.sum, view.reduced_dim);
  double mean_square = 0;
  for (double& bin : mean) {
    bin /= static_cast<double>(view.ranks.size());
    mean_square += bin * bin;
  }
  if (!(mean_square > 0)) return check;

  std::vector<double> factors;
  factors.reserve(view.ranks.size());
  for (const RankView& rank : view.ranks) {
    if (rank.reduced.sketch.empty()) continue;
    const double factor = product(rank.reduced.sketch, mean) / mean_square;
    if (std::isfinite(factor)) factors.push_back(factor);
  }
  if (factors.empty()) return check;
  check.scale = common_factor(std::move(factors));

  // A group that holds all zeros has factor 0, to which nothing can be relative: its gap is against the mean itself.
  const double factor = *check.scale == 0 ? 1 : *check.scale;
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    const std::span<const float> reduced = view.ranks[i].reduced.sketch;
    if (reduced.empty()) continue;
    const double gap = gap_from(reduced, mean, factor, std::abs(factor) * std::sqrt(mean_square));
    if (!std::isfinite(gap)) continue;
    check.gaps[i] = gap;
    check.gap = std::max(check.gap.value_or(0), gap);
  }
  return check;
}

ReducedSquare reduced_square(const StepView& view, const ReductionCheck& check, bool trust_scale) {
  ReducedSquare result;
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    const GradientView& reduced = view.ranks[i].reduced;
    if (!reduced.sound) continue;
    if (!result.norm) result.norm = reduced.norm;
    const double square = view.ranks[i].record->reduced.sum_squares;
    if (!check.scale) {
      if (trust_scale) result.mean_square = square;
      break;
    }
    const Metric gap = check.gaps[i];
    if (!gap || *gap > kGapOfAnotherVector || *check.scale == 0) continue;
    const bool off = std::abs(*check.scale - 1) > kScaleResolution + *gap;
    result.mean_square = off ? square / (*check.scale * *check.scale) : square;
    break;
  }
  return result;
}

bool scale_is_off(const ReductionCheck& check) {
  return check.scale && std::abs(*check.scale - 1) > kScaleOff + check.gap.value_or(0);
}

}  // namespace lockstep::stats
