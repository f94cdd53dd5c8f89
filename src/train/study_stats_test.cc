#include "train/study_stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace lockstep::train {
namespace {

// Prints its seed where a test fails.
struct Random {
  explicit Random(std::uint64_t seed) : engine(seed), trace(__FILE__, __LINE__, "seed " + std::to_string(seed)) {}
  double normal() { return distribution(engine); }
  std::mt19937_64 engine;
  std::normal_distribution<double> distribution;
  testing::ScopedTrace trace;
};

TEST(MeanInterval, IsTheTextbookInterval) {
  const std::vector<double> values = {1, 2, 3, 4, 5};
  const Interval interval = mean_interval(values);
  EXPECT_DOUBLE_EQ(*interval.mean, 3);
  EXPECT_NEAR(*interval.low, 3 - 2.7764451051977987 * std::sqrt(0.5), 1e-9);
  EXPECT_NEAR(*interval.high, 3 + 2.7764451051977987 * std::sqrt(0.5), 1e-9);
}

TEST(MeanInterval, OneSeedHasNoIntervalAndNoneHasNoMean) {
  const std::vector<double> one = {7};
  EXPECT_EQ(mean_interval(one).mean, 7);
  EXPECT_FALSE(mean_interval(one).low);
  EXPECT_FALSE(mean_interval({}).mean);
}

TEST(MeanInterval, HoldsTheTruthInNinetyFiveOfHundredStudies) {
  Random random(20260214);
  for (std::size_t seeds : {2U, 4U, 8U}) {
    const int studies = 20000;
    int held = 0;
    for (int study = 0; study < studies; ++study) {
      std::vector<double> values(seeds);
      for (double& value : values) value = 5 + 2 * random.normal();
      const Interval interval = mean_interval(values);
      held += *interval.low <= 5 && 5 <= *interval.high ? 1 : 0;
    }
    // Four standard deviations of a binomial share of 20,000.
    EXPECT_NEAR(static_cast<double>(held) / studies, 0.95, 4 * std::sqrt(0.95 * 0.05 / studies)) << seeds;
  }
}

TEST(ComparePaired, IsTheTextbookPairedTest) {
  // Differences 1, 2, 3: t = 2/(1/sqrt 3) = 3.4641 with 2 degrees of freedom, p = 1 - t/sqrt(2 + t^2).
  const std::vector<double> from = {10, 20, 30}, to = {11, 22, 33};
  const PairedComparison comparison = compare_paired(from, to);
  EXPECT_DOUBLE_EQ(*comparison.difference.mean, 2);
  EXPECT_NEAR(*comparison.p_value, 1 - std::sqrt(12.0 / 14.0), 1e-12);
  EXPECT_DOUBLE_EQ(*comparison.p_sign_flip, 0.25);
  const double spread = std::sqrt((100 + 121) / 2.0);
  EXPECT_NEAR(*comparison.effect, 2 / spread * (1 - 3.0 / 7.0), 1e-12);
}

TEST(ComparePaired, PValueIsUniformWhereNothingDiffers) {
  Random random(7);
  const int studies = 20000;
  std::vector<double> p_values;
  int sign_flips_below = 0;
  for (int study = 0; study < studies; ++study) {
    std::vector<double> from(6), to(6);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double shared = 3 * random.normal();  // what the pair has in common drops out
      from[i] = shared + random.normal();
      to[i] = shared + random.normal();
    }
    const PairedComparison comparison = compare_paired(from, to);
    p_values.push_back(*comparison.p_value);
    sign_flips_below += *comparison.p_sign_flip <= 0.0625 ? 1 : 0;
  }
  std::sort(p_values.begin(), p_values.end());
  double distance = 0;  // Kolmogorov-Smirnov
  for (int i = 0; i < studies; ++i) {
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, (rank + 1) / studies - p_values[i], p_values[i] - rank / studies});
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(studies));  // passed by 99.9 % of uniform samples
  // Exact test: its levels are multiples of 2/64, and each is reached exactly that often.
  EXPECT_NEAR(static_cast<double>(sign_flips_below) / studies, 0.0625, 4 * std::sqrt(0.0625 * 0.9375 / studies));
}

TEST(ComparePaired, FindsAShiftThatIsThere) {
  Random random(11);
  int found = 0;
  for (int study = 0; study < 200; ++study) {
    std::vector<double> from(5), to(5);
    for (std::size_t i = 0; i < from.size(); ++i) {
      from[i] = random.normal();
      to[i] = from[i] + 1 + 0.2 * random.normal();
    }
    found += *compare_paired(from, to).p_value < 0.01 ? 1 : 0;
  }
  EXPECT_GT(found, 180);
}

TEST(ComparePaired, EqualDifferencesAreNeverInfinitelyCertain) {
  const std::vector<double> from = {1, 2, 3, 4}, same = from, shifted = {2, 3, 4, 5};
  EXPECT_EQ(compare_paired(from, same).p_value, 1.0);
  EXPECT_EQ(compare_paired(from, shifted).p_value, 0.125);  // 2/2^4, the exact test's smallest
  EXPECT_EQ(compare_paired(from, shifted).p_sign_flip, 0.125);
}

TEST(ComparePaired, ConstantSettingsHaveNoEffectSize) {
  const std::vector<double> zeros = {0, 0, 0}, ones = {1, 1, 1};
  const PairedComparison comparison = compare_paired(zeros, ones);
  EXPECT_EQ(comparison.difference.mean, 1.0);
  EXPECT_FALSE(comparison.effect);
}

TEST(ComparePaired, TooFewOrUnequalSeedsGiveNoVerdict) {
  const std::vector<double> one = {1}, two = {1, 2};
  EXPECT_EQ(compare_paired(one, one).difference.mean, 0.0);
  EXPECT_FALSE(compare_paired(one, one).p_value);
  EXPECT_FALSE(compare_paired(one, two).difference.mean);
}

TEST(HolmAdjust, FollowsTheTextbookExample) {
  const std::vector<std::optional<double>> p = {0.01, 0.04, std::nullopt, 0.03, 0.005};
  const auto adjusted = holm_adjust(p);
  EXPECT_NEAR(*adjusted[4], 0.02, 1e-12);
  EXPECT_NEAR(*adjusted[0], 0.03, 1e-12);
  EXPECT_NEAR(*adjusted[3], 0.06, 1e-12);
  EXPECT_NEAR(*adjusted[1], 0.06, 1e-12);  // never below one that was smaller
  EXPECT_FALSE(adjusted[2]);
}

TEST(HolmAdjust, KeepsTheChanceOfAnyFalseAlarm) {
  Random random(3);
  std::uniform_real_distribution<double> uniform;
  const int studies = 20000;
  int alarms = 0;
  for (int study = 0; study < studies; ++study) {
    std::vector<std::optional<double>> p(20);
    for (auto& value : p) value = uniform(random.engine);
    const auto adjusted = holm_adjust(p);
    alarms += std::any_of(adjusted.begin(), adjusted.end(), [](const auto& value) { return *value <= 0.05; }) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(alarms) / studies, 1 - std::pow(1 - 0.05 / 20, 20),
              4 * std::sqrt(0.05 * 0.95 / studies));
}

}  // namespace
}  // namespace lockstep::train
