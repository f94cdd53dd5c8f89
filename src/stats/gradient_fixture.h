// For tests: workers with explicit fp64 gradients, and records of them made with a plain count sketch.
//
// Everything that a metric claims can be computed here the obvious way, from the vectors themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "lockstep/stats.h"

namespace lockstep::stats {

using Gradient = std::vector<double>;
using Gradients = std::vector<Gradient>;

inline double inner(const Gradient& a, const Gradient& b) {
  double sum = 0;
  for (std::size_t e = 0; e < a.size(); ++e) sum += a[e] * b[e];
  return sum;
}

inline double norm(const Gradient& a) {
  return std::sqrt(inner(a, a));
}
inline double cosine(const Gradient& a, const Gradient& b) {
  return inner(a, b) / (norm(a) * norm(b));
}

inline Gradient mean_of(const Gradients& gradients) {
  Gradient mean(gradients.front().size(), 0.0);
  for (const Gradient& gradient : gradients) {
    for (std::size_t e = 0; e < mean.size(); ++e) mean[e] += gradient[e] / static_cast<double>(gradients.size());
  }
  return mean;
}

inline double mean_pairwise_cosine(const Gradients& gradients) {
  double sum = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pairs) sum += cosine(gradients[i], gradients[j]);
  }
  return sum / pairs;
}

inline Gradient gaussian(std::size_t dimension, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  Gradient gradient(dimension);
  for (double& element : gradient) element = normal(engine);
  return gradient;
}

// n gradients a_i (sqrt(c) common + sqrt(1-c) own) with pairwise cosine near c and norms spread by `spread`.
inline Gradients correlated(std::size_t n, std::size_t dimension, double c, double spread, std::mt19937_64& engine) {
  const Gradient common = gaussian(dimension, engine);
  std::normal_distribution<double> normal;
  Gradients gradients;
  for (std::size_t i = 0; i < n; ++i) {
    Gradient gradient = gaussian(dimension, engine);
    const double scale = std::exp(spread * normal(engine));
    for (std::size_t e = 0; e < dimension; ++e) {
      gradient[e] = scale * (std::sqrt(c) * common[e] + std::sqrt(1 - c) * gradient[e]);
    }
    gradients.push_back(std::move(gradient));
  }
  return gradients;
}

// Each element goes to one bin with a random sign; all workers share the draw, another seed is an independent sketch.
class CountSketch {
 public:
  CountSketch(std::size_t dimension, std::uint32_t k, std::uint64_t seed) : k_(k), bins_(dimension), signs_(dimension) {
    std::mt19937_64 engine(seed);
    for (std::size_t e = 0; e < dimension; ++e) {
      const std::uint64_t draw = engine();
      bins_[e] = static_cast<std::uint32_t>(draw % k);
      signs_[e] = (draw >> 63) != 0 ? 1.0 : -1.0;
    }
  }

  std::vector<float> operator()(const Gradient& gradient) const { return (*this)(gradient, k_); }

  // Folded to `k` bins.
  std::vector<float> operator()(const Gradient& gradient, std::uint32_t k) const {
    std::vector<double> sums(k, 0.0);
    const std::uint32_t mask = k - 1;  // powers of two only
    for (std::size_t e = 0; e < gradient.size(); ++e) sums[bins_[e] & mask] += signs_[e] * gradient[e];
    return {sums.begin(), sums.end()};
  }

 private:
  std::uint32_t k_;
  std::vector<std::uint32_t> bins_;
  std::vector<double> signs_;
};

inline GradientRecord scalars_of(const Gradient& gradient) {
  GradientRecord record;
  record.observed = true;
  record.count = gradient.size();
  record.sum_squares = inner(gradient, gradient);
  for (const double element : gradient) record.max_abs = std::max(record.max_abs, std::abs(element));
  return record;
}

inline constexpr std::uint32_t kReducedDim = 128;

// A healthy step: sketches of all gradients, and on every rank their mean times `scale` as the reduced one.
inline Step make_step(const Gradients& gradients, const CountSketch& sketch, double scale = 1) {
  Gradient reduced = mean_of(gradients);
  for (double& element : reduced) element *= scale;
  GradientRecord reduced_record = scalars_of(reduced);
  reduced_record.sketch = sketch(reduced, kReducedDim);
  Step step;
  step.world = static_cast<std::uint32_t>(gradients.size());
  for (std::uint32_t rank = 0; rank < step.world; ++rank) {
    Record record;
    record.rank = rank;
    record.world = step.world;
    record.gradient = scalars_of(gradients[rank]);
    record.gradient.sketch = sketch(gradients[rank]);
    record.reduced = reduced_record;
    step.records.push_back(std::move(record));
  }
  return step;
}

// The same without any sketch, as on the steps between two sketch intervals.
inline Step without_sketches(Step step) {
  for (Record& record : step.records) record.gradient.sketch = record.reduced.sketch = {};
  return step;
}

}  // namespace lockstep::stats
