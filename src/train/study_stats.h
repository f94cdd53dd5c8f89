// What a study may say from few seeds: intervals, and comparisons of two settings.
//
// A run is one observation. Steps of a run follow each other on the same weights and are no independent samples, so
// every number that comes in here is already one run's mean, and the seeds are what is averaged, spread and tested.
// Settings share their base seeds, so they are compared seed by seed (paired). Needs no libtorch.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::train {

inline constexpr double kConfidence = 0.95;

// A mean with its Student-t interval. One value alone has no interval, no values have no mean.
struct Interval {
  std::size_t count = 0;
  std::optional<double> mean, low, high;
};
Interval mean_interval(std::span<const double> values, double confidence = kConfidence);

// How a metric moves from one setting to another.
struct PairedComparison {
  Interval difference;           // of to - from, over seeds
  std::optional<double> effect;  // the difference in units of the spread between runs (below)
  std::optional<double> p_value;
  std::optional<double> p_sign_flip;
};

// The two spans hold the same seeds in the same order; spans of different sizes give nothing.
//   p_value      two-sided paired t-test. Where all seeds give one and the same difference the test has no scale: 1 for
//                a difference of zero, else the sign-flip value. Absent below two seeds.
//   p_sign_flip  the exact permutation test: the share of all 2^n assignments of signs to the differences whose mean is
//                at least as far from zero. Assumes only symmetry, but with n seeds it cannot go below 2^(1-n), so five
//                seeds never reach 0.05; hence it stands beside the t-test and not in its place. Up to
//                kMaxSignFlipSeeds.
//   effect       Hedges' g_av: difference / sqrt((s_from^2 + s_to^2)/2) x (1 - 3/(4(n-1) - 1)), Lakens (2013). Absent
//                below two seeds and where neither setting varies.
inline constexpr std::size_t kMaxSignFlipSeeds = 16;
PairedComparison compare_paired(std::span<const double> from, std::span<const double> to,
                                double confidence = kConfidence);

// Holm's adjusted p-values: comparing each with alpha keeps the chance of even one false rejection among all of them at
// alpha, whatever their dependence. Absent ones stay absent and do not count.
std::vector<std::optional<double>> holm_adjust(std::span<const std::optional<double>> p_values);

}  // namespace lockstep::train
