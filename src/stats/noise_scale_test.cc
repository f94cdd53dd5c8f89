#include "stats/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <random>

#include "stats/cosine.h"

namespace lockstep::stats {
namespace {

TEST(NoiseTerms, RatioIsOneOverPooledCosineLessOne) {
  const double s2 = 7, m2 = 2;
  const double c = *pooled_cosine(m2 / s2, 5);
  const NoiseTerms terms = noise_terms(s2, m2, 5);
  EXPECT_NEAR(*terms.ratio(), 1 / c - 1, 1e-12);
  EXPECT_NEAR(terms.noise + terms.signal, s2, 1e-12);
}

TEST(NoiseTerms, NoVerdictWhereTheSignalDrowns) {
  EXPECT_FALSE(noise_terms(8, 1, 8).ratio()) << "orthogonal workers: the signal is zero";
  EXPECT_FALSE(noise_terms(8, 0.5, 8).ratio()) << "negative estimate of a positive thing";
  EXPECT_EQ(noise_terms(8, 8, 8).ratio(), 0.0) << "identical workers have no noise";
}

TEST(NoiseScale, SmoothedRatioIsRightWhereTheMeanOfRatiosIsNot) {
  // Workers g_i = mu + noise in d dimensions, B/b = d sigma^2/|mu|^2 = 20: single steps of 4 workers often have no
  // signal.
  const std::uint64_t seed = 11;
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  constexpr int kDimension = 50, kWorkers = 4, kSteps = 4000;
  const double mu = std::sqrt(1.0 / kDimension), sigma = std::sqrt(20.0 / kDimension);
  NoiseScale scale;
  int silent_steps = 0;
  double mean_ratio = 0, verdicts = 0;
  for (int step = 0; step < kSteps; ++step) {
    double s2 = 0, m2 = 0;
    for (int e = 0; e < kDimension; ++e) {
      double mean = 0;
      for (int i = 0; i < kWorkers; ++i) {
        const double g = mu + sigma * normal(engine);
        s2 += g * g / kWorkers;
        mean += g / kWorkers;
      }
      m2 += mean * mean;
    }
    const NoiseTerms terms = noise_terms(s2, m2, kWorkers);
    silent_steps += terms.ratio() ? 0 : 1;
    scale.add(terms, 0.999);
    if (!scale.ratio() || step < 2000) continue;
    mean_ratio += *scale.ratio();
    ++verdicts;
  }
  EXPECT_GT(silent_steps, kSteps / 20);
  EXPECT_NEAR(mean_ratio / verdicts, 20, 3);
}

TEST(NoiseScale, FirstStepIsNotBiasedTowardsZero) {
  NoiseScale scale;
  EXPECT_FALSE(scale.ratio());
  scale.add({3, 2}, 0.9);
  EXPECT_NEAR(*scale.ratio(), 1.5, 1e-12);
}

TEST(NoiseScale, OneCorruptedStepIsForgottenSoon) {
  NoiseScale scale;
  for (int step = 0; step < 100; ++step) scale.add({3, 2}, 0.9);
  scale.add({1e24, 0}, 0.9);
  for (int step = 0; step < 60; ++step) scale.add({3, 2}, 0.9);
  EXPECT_NEAR(*scale.ratio(), 1.5, 0.02);
}

TEST(NoiseScale, FollowsGradientsThatShrinkAndGrowSlowly) {
  NoiseScale scale;
  double size = 1;
  for (int step = 0; step < 300; ++step) {
    size *= step < 150 ? 0.8 : 1.25;
    scale.add({size, size / 4}, 0.9);
  }
  EXPECT_NEAR(*scale.ratio(), 4, 1e-9);
}

TEST(NoiseScale, NonFiniteAndZeroStepsChangeNothing) {
  NoiseScale scale;
  scale.add({3, 2}, 0.9);
  scale.add({std::numeric_limits<double>::infinity(), 1}, 0.9);
  scale.add({0, 0}, 0.9);
  EXPECT_NEAR(*scale.ratio(), 1.5, 1e-12);
}

}  // namespace
}  // namespace lockstep::stats
