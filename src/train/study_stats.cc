#include "train/study_stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "train/student_t.h"

namespace lockstep::train {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;  // sample form, n - 1
};

Moments moments(std::span<const double> values) {
  Moments out;
  double squares = 0;
  std::size_t count = 0;
  for (double value : values) {
    const double before = value - out.mean;
    out.mean += before / static_cast<double>(++count);
    squares += before * (value - out.mean);
  }
  if (count > 1) out.variance = squares / static_cast<double>(count - 1);
  return out;
}

double sign_flip_p(std::span<const double> differences) {
  const std::size_t n = differences.size();
  const double observed = std::abs(std::accumulate(differences.begin(), differences.end(), 0.0));
  double size = 0;
  for (double difference : differences) size += std::abs(difference);
  // Assignments that equal the observed one in exact arithmetic must count, whatever their rounding.
  const double threshold = observed - 1e-12 * size;
  const std::uint64_t assignments = std::uint64_t{1} << n;
  std::uint64_t as_far = 0;
  for (std::uint64_t signs = 0; signs < assignments; ++signs) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += (signs >> i & 1) != 0 ? -differences[i] : differences[i];
    if (std::abs(sum) >= threshold) ++as_far;
  }
  return static_cast<double>(as_far) / static_cast<double>(assignments);
}

}  // namespace

Interval mean_interval(std::span<const double> values, double confidence) {
  Interval out;
  out.count = values.size();
  if (values.empty()) return out;
  const Moments m = moments(values);
  out.mean = m.mean;
  if (values.size() < 2) return out;
  const auto n = static_cast<double>(values.size());
  const double half = student_t_critical(confidence, n - 1) * std::sqrt(m.variance / n);
  out.low = m.mean - half;
  out.high = m.mean + half;
  return out;
}

PairedComparison compare_paired(std::span<const double> from, std::span<const double> to, double confidence) {
  PairedComparison out;
  if (from.size() != to.size() || from.empty()) return out;
  std::vector<double> differences(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) differences[i] = to[i] - from[i];
  out.difference = mean_interval(differences, confidence);
  if (differences.size() < 2) return out;

  const auto n = static_cast<double>(differences.size());
  const Moments m = moments(differences);
  if (differences.size() <= kMaxSignFlipSeeds) out.p_sign_flip = sign_flip_p(differences);
  if (m.variance > 0) {
    out.p_value = student_t_two_sided(m.mean / std::sqrt(m.variance / n), n - 1);
  } else {
    out.p_value = m.mean == 0 ? 1.0 : out.p_sign_flip.value_or(std::exp2(1 - n));
  }
  const double spread = std::sqrt((moments(from).variance + moments(to).variance) / 2);
  if (spread > 0) out.effect = m.mean / spread * (1 - 3 / (4 * (n - 1) - 1));
  return out;
}

std::vector<std::optional<double>> holm_adjust(std::span<const std::optional<double>> p_values) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p_values.size(); ++i) {
    if (p_values[i]) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return *p_values[a] < *p_values[b]; });
  std::vector<std::optional<double>> adjusted(p_values.size());
  double floor = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    floor = std::max(floor, std::min(1.0, *p_values[order[i]] * static_cast<double>(order.size() - i)));
    adjusted[order[i]] = floor;
  }
  return adjusted;
}

}  // namespace lockstep::train
