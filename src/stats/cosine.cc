#include "stats/cosine.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "stats/row_kernels.h"

namespace lockstep::stats {
namespace {

// Pairs among this many ranks are looked at one by one for the error bar; beyond it a sample of that size stands for
// all.
constexpr std::size_t kErrorSample = 32;

// The others' sum must exceed the rounding of the additions that made it; see leave_one_out.
constexpr double kSumRounding = 1e-12;

double sum_squares(const std::vector<double>& values) noexcept {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

// The mean of n(n-1) cosines lies in [-1/(n-1), 1]. Estimates obey this by construction; only rounding is cut off.
double within_range(double mean, double n) noexcept {
  return std::clamp(mean, -1 / (n - 1), 1.0);
}

// One rank from each of kErrorSample equal stretches, at a scattered place in it: a fixed stride would meet the same
// local rank of every node.
std::vector<const SketchRow*> error_sample(const SketchMoments& moments) {
  std::vector<const SketchRow*> all;
  all.reserve(moments.directions);
  for (const SketchRow& row : moments.rows) {
    if (row.has_direction()) all.push_back(&row);
  }
  if (all.size() <= kErrorSample) return all;
  std::vector<const SketchRow*> sample;
  for (std::uint64_t j = 0; j < kErrorSample; ++j) {
    const std::size_t begin = j * all.size() / kErrorSample;
    const std::size_t end = (j + 1) * all.size() / kErrorSample;
    const std::uint64_t scatter = (j + 1) * 0x9e3779b97f4a7c15ULL >> 33;
    sample.push_back(all[begin + scatter % (end - begin)]);
  }
  return sample;
}

// Mean over pairs i != j of m_i m_j (r_i . r_j)^2, where m_i = u_i . T and r_i is the part of u_i across T.
double mean_pair_term(const SketchMoments& moments, double inverse_total) {
  const std::vector<const SketchRow*> sample = error_sample(moments);
  double sum = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const SketchRow &a = *sample[i], &b = *sample[j];
      const double cosine = dot(a.sketch, b.sketch, moments.k) * a.inverse_norm * b.inverse_norm;
      const double across = cosine - a.unit_product * inverse_total * b.unit_product * inverse_total;
      sum += a.unit_product * b.unit_product * across * across;
    }
  }
  const double pairs = 0.5 * static_cast<double>(sample.size()) * (static_cast<double>(sample.size()) - 1);
  return pairs > 0 ? sum / pairs : 0;
}

// Squared Frobenius norm of B = T T' - sum m_i u_i u_i', the matrix whose quadratic form is the first-order error of
// |T|^2; docs/metrics.md, "Error bar of the mean cosine". Split along and across T, so that nothing cancels: along T,
// mixed, and across, where only the last needs pairs.
double error_form(const SketchMoments& moments) {
  const double total_square = sum_squares(moments.unit_sum);
  const double inverse_total = total_square > 0 ? 1 / std::sqrt(total_square) : 0;
  double along = 0;
  double diagonal = 0;
  double pull_along = 0;
  double bound = 0;
  for (const SketchRow& row : moments.rows) {
    if (!row.has_direction()) continue;
    const double m = row.unit_product;
    const double a = m * inverse_total;
    const double across_square = std::max(1 - a * a, 0.0);
    along += m * across_square;
    bound += std::abs(m) * across_square;
    diagonal += m * across_square * m * across_square;
    pull_along += m * m * a;
  }
  double pull_across = 0;  // |sum m_i^2 r_i|^2: of the squared pull, what is not along T
  for (std::size_t b = 0; b < moments.k; ++b) {
    const double across = moments.squared_pull[b] - pull_along * inverse_total * moments.unit_sum[b];
    pull_across += across * across;
  }
  const double mixed = 2 * pull_across * inverse_total * inverse_total;
  const double n = static_cast<double>(moments.directions);
  const double pairs = n * (n - 1) * mean_pair_term(moments, inverse_total);
  return along * along + mixed + std::clamp(diagonal + pairs, 0.0, bound * bound);
}

}  // namespace

MeanCosine mean_cosine(const SketchMoments& moments) {
  if (moments.directions < 2) return {};
  const double n = static_cast<double>(moments.directions);
  const double pairs = n * (n - 1);
  const double mean = (sum_squares(moments.unit_sum) - n) / pairs;
  const double variance = 2 / static_cast<double>(moments.k) * error_form(moments);
  return {within_range(mean, n), std::sqrt(variance) / pairs};
}

MeanCosine mean_cosine(double direction_sum_squares, std::size_t directions) {
  if (directions < 2) return {};
  const double n = static_cast<double>(directions);
  return {within_range((direction_sum_squares - n) / (n * (n - 1)), n), 0.0};
}

Metric leave_one_out(const SketchMoments& moments, const SketchRow& row) {
  if (!row.has_direction() || moments.directions < 2) return std::nullopt;
  const double rounding = kSumRounding * kSumRounding * moments.squares * static_cast<double>(moments.rows.size());
  if (!(row.others_square > rounding)) return std::nullopt;
  return std::clamp(row.others_product * row.inverse_norm / std::sqrt(row.others_square), -1.0, 1.0);
}

Metric pooled_ratio(const SketchMoments& moments) {
  if (!(moments.squares > 0)) return std::nullopt;
  return moments.sum_square / (static_cast<double>(moments.rows.size()) * moments.squares);
}

Metric pooled_cosine(double ratio, std::size_t n) {
  if (n < 2) return std::nullopt;
  const double count = static_cast<double>(n);
  return within_range((count * ratio - 1) / (count - 1), count);
}

std::vector<float> cosine_matrix(const SketchMoments& moments, std::size_t workers) {
  if (moments.directions < 2) return {};
  std::vector<float> matrix(workers * workers, std::numeric_limits<float>::quiet_NaN());
  for (const SketchRow& a : moments.rows) {
    if (!a.has_direction()) continue;
    matrix[a.rank * workers + a.rank] = 1;
    for (const SketchRow& b : moments.rows) {
      if (b.rank >= a.rank) break;
      if (!b.has_direction()) continue;
      const double cosine = dot(a.sketch, b.sketch, moments.k) * a.inverse_norm * b.inverse_norm;
      const float entry = static_cast<float>(std::clamp(cosine, -1.0, 1.0));
      matrix[a.rank * workers + b.rank] = entry;
      matrix[b.rank * workers + a.rank] = entry;
    }
  }
  return matrix;
}

}  // namespace lockstep::stats
