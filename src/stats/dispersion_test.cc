#include "stats/dispersion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::stats {
namespace {

StepStats stats_of(const Step& step) {
  return StatsEngine().update(step);
}

Step step_of_losses(const std::vector<double>& losses) {
  Step step;
  step.world = static_cast<std::uint32_t>(losses.size());
  for (std::uint32_t rank = 0; rank < step.world; ++rank) {
    Record record;
    record.rank = rank;
    record.loss_sum = 4 * losses[rank];
    record.loss_count = 4;
    step.records.push_back(record);
  }
  return step;
}

TEST(Dispersion, KeepsItsDigitsWhenTheSpreadIsSmallAgainstTheMean) {
  Dispersion dispersion;
  for (const double value : {1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4}) dispersion.add(value);
  EXPECT_DOUBLE_EQ(*dispersion.mean(), 1e9 + 2.5);
  EXPECT_DOUBLE_EQ(*dispersion.std(), std::sqrt(1.25)) << "population form, a naive sum of squares gives 0 or NaN";
  EXPECT_DOUBLE_EQ(*dispersion.range(), 3);
}

TEST(Dispersion, OneValueHasAMeanButNoDispersion) {
  Dispersion dispersion;
  EXPECT_FALSE(dispersion.mean());
  dispersion.add(3);
  EXPECT_EQ(dispersion.mean(), 3.0);
  EXPECT_FALSE(dispersion.std());
  EXPECT_FALSE(dispersion.range());
}

TEST(Losses, ARankIsTheMeanOfItsMicroBatches) {
  const StepStats stats = stats_of(step_of_losses({1, 2, 3, 6}));
  EXPECT_DOUBLE_EQ(*stats.ranks[3].loss, 6);
  EXPECT_DOUBLE_EQ(*stats.loss_mean, 3);
  EXPECT_DOUBLE_EQ(*stats.loss_std, std::sqrt(3.5));
  EXPECT_DOUBLE_EQ(*stats.loss_range, 5);
  EXPECT_FALSE(stats.token_loss) << "nobody gave tokens";
}

TEST(Losses, EqualLossesHaveDispersionZero) {
  const StepStats stats = stats_of(step_of_losses({0.1, 0.1, 0.1}));
  EXPECT_EQ(stats.loss_std, 0.0);
  EXPECT_EQ(stats.loss_range, 0.0);
}

TEST(Losses, RanksWithoutAFiniteLossAreLeftOut) {
  Step step = step_of_losses({1, 2, 3, 9});
  step.records[3].loss_sum = 0;
  step.records[3].loss_count = 0;
  step.records[3].loss_nonfinite = 4;
  step.records[2].loss_sum = std::numeric_limits<double>::infinity();  // finite losses whose sum overflowed
  const StepStats stats = stats_of(step);
  EXPECT_FALSE(stats.ranks[3].loss);
  EXPECT_FALSE(stats.ranks[2].loss);
  EXPECT_DOUBLE_EQ(*stats.loss_mean, 1.5);
  EXPECT_DOUBLE_EQ(*stats.loss_std, 0.5);
}

TEST(Losses, TokenLossWeighsEveryTokenAlike) {
  Step step = step_of_losses({1, 3});
  step.records[0].tokens = 300;
  step.records[0].token_loss_sum = 300 * 1.0;
  step.records[1].tokens = 100;
  step.records[1].token_loss_sum = 100 * 3.0;
  const StepStats stats = stats_of(step);
  EXPECT_DOUBLE_EQ(*stats.token_loss, 1.5);
  EXPECT_DOUBLE_EQ(*stats.loss_mean, 2) << "the mean of means that training reports";
}

Step step_of_norms(const std::vector<double>& norms) {
  Step step;
  step.world = static_cast<std::uint32_t>(norms.size());
  for (std::uint32_t rank = 0; rank < step.world; ++rank) {
    Record record;
    record.rank = rank;
    record.gradient.observed = true;
    record.gradient.count = 100;
    record.gradient.sum_squares = norms[rank] * norms[rank];
    step.records.push_back(record);
  }
  return step;
}

TEST(Norms, MeanSpreadAndTheirRatio) {
  const StepStats stats = stats_of(step_of_norms({1, 2, 3}));
  EXPECT_DOUBLE_EQ(*stats.norm_mean, 2);
  EXPECT_DOUBLE_EQ(*stats.norm_std, std::sqrt(2.0 / 3));
  EXPECT_DOUBLE_EQ(*stats.norm_cv, std::sqrt(2.0 / 3) / 2);
}

TEST(Norms, ZeroGradientsHaveNormZeroButNoRelativeSpread) {
  const StepStats stats = stats_of(step_of_norms({0, 0}));
  EXPECT_EQ(stats.norm_mean, 0.0);
  EXPECT_EQ(stats.norm_std, 0.0);
  EXPECT_FALSE(stats.norm_cv);
}

TEST(Norms, FinitePartHasANormAndNothingFiniteHasNone) {
  Step step = step_of_norms({1, 2, 3, 4, 5});
  step.records[1].gradient.nonfinite = 1;
  step.records[2].gradient.nonfinite = 100;
  step.records[3].gradient.observed = false;
  step.records[4].gradient.sum_squares = std::numeric_limits<double>::infinity();
  const StepStats stats = stats_of(step);
  EXPECT_EQ(stats.ranks[1].norm, 2.0);
  EXPECT_FALSE(stats.ranks[2].norm);
  EXPECT_FALSE(stats.ranks[3].norm);
  EXPECT_FALSE(stats.ranks[4].norm);
  EXPECT_DOUBLE_EQ(*stats.norm_mean, 1.5);
}

}  // namespace
}  // namespace lockstep::stats
