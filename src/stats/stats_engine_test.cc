#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>

#include "lockstep/stats.h"
#include "stats/gradient_fixture.h"

namespace lockstep::stats {
namespace {

constexpr std::uint32_t kDim = 4096;
constexpr std::size_t kElements = 20000;
constexpr std::uint64_t kSeed = 4711;

class Engine : public testing::Test {
 protected:
  Engine() : engine_(kSeed), sketch_(kElements, kDim, kSeed) { std::cout << "seed " << kSeed << "\n"; }
  std::mt19937_64 engine_;
  CountSketch sketch_;
};

std::vector<Metric> gradient_metrics(const StepStats& s) {
  return {s.norm_mean,
          s.norm_std,
          s.norm_cv,
          s.cosine_mean,
          s.cosine_mean_error,
          s.cosine_pooled,
          s.cosine_pooled_sketch,
          s.mean_norm,
          s.noise_ratio,
          s.noise_ratio_smooth,
          s.reduction_gap,
          s.reduction_scale};
}

std::vector<Metric> direction_metrics(const StepStats& s) {
  return {s.cosine_mean,          s.cosine_mean_error, s.cosine_pooled,
          s.cosine_pooled_sketch, s.noise_ratio,       s.noise_ratio_smooth};
}

TEST_F(Engine, AgreesWithExplicitVectors) {
  for (const std::size_t n : {2, 3, 8, 21}) {
    const Gradients gradients = correlated(n, kElements, 0.3, 0.4, engine_);
    const StepStats stats = StatsEngine().update(make_step(gradients, sketch_));
    const double count = static_cast<double>(n);
    double mean = 0, s2 = 0;
    for (const Gradient& gradient : gradients) mean += norm(gradient) / count;
    double variance = 0;
    for (const Gradient& gradient : gradients) {
      variance += (norm(gradient) - mean) * (norm(gradient) - mean) / count;
      s2 += inner(gradient, gradient) / count;
    }
    const Gradient reduced = mean_of(gradients);
    const double pooled = (count * inner(reduced, reduced) / s2 - 1) / (count - 1);

    EXPECT_EQ(stats.workers, n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(*stats.ranks[i].norm / norm(gradients[i]), 1, 1e-6);
    EXPECT_NEAR(*stats.norm_mean / mean, 1, 1e-6);
    EXPECT_NEAR(*stats.norm_std / std::sqrt(variance), 1, 1e-6);
    EXPECT_NEAR(*stats.norm_cv / (std::sqrt(variance) / mean), 1, 1e-6);
    EXPECT_NEAR(*stats.reduced_norm / norm(reduced), 1, 1e-6);
    EXPECT_NEAR(*stats.cosine_pooled / pooled, 1, 1e-6);
    EXPECT_NEAR(*stats.noise_ratio / (1 / pooled - 1), 1, 1e-5);
    EXPECT_EQ(stats.noise_ratio, stats.noise_ratio_smooth) << "first step";

    EXPECT_FALSE(stats.cosine_exact);
    EXPECT_NEAR(*stats.cosine_mean, mean_pairwise_cosine(gradients), 4 * *stats.cosine_mean_error);
    EXPECT_NEAR(*stats.cosine_pooled_sketch, pooled, 4 * std::sqrt(2.0 / kDim));
    EXPECT_NEAR(*stats.mean_norm / norm(reduced), 1, 4 * std::sqrt(0.5 / kDim));
  }
}

TEST_F(Engine, IdenticalWorkersHaveCosineOneAndNoDispersion) {
  const Gradients gradients(8, gaussian(kElements, engine_));
  const StepStats stats = StatsEngine().update(make_step(gradients, sketch_));
  EXPECT_NEAR(*stats.cosine_mean, 1, 1e-12);
  EXPECT_NEAR(*stats.cosine_pooled, 1, 1e-9);
  EXPECT_NEAR(*stats.cosine_pooled_sketch, 1, 1e-12);
  EXPECT_EQ(stats.norm_std, 0.0);
  EXPECT_NEAR(*stats.noise_ratio, 0, 1e-9);
  for (const RankStats& rank : stats.ranks) EXPECT_NEAR(*rank.leave_one_out, 1, 1e-12);
}

TEST_F(Engine, ReplicatedSettingsOfThePaperMeetTheirOracle) {
  // All ranks on one batch: 1; one rank of eight on its own batch: 0.75 + 0.25 c; all on their own: c.
  const Gradients independent = correlated(8, kElements, 0.2, 0, engine_);
  const double c = mean_pairwise_cosine(independent);
  Gradients mild(8, independent[1]);
  mild[0] = independent[0];
  const double pair = cosine(independent[0], independent[1]);
  const StepStats strict = StatsEngine().update(make_step(Gradients(8, independent[1]), sketch_));
  const StepStats one_off = StatsEngine().update(make_step(mild, sketch_));
  const StepStats all_off = StatsEngine().update(make_step(independent, sketch_));
  EXPECT_NEAR(*strict.cosine_mean, 1, 1e-12);
  EXPECT_NEAR(*one_off.cosine_mean, 0.75 + 0.25 * pair, 4 * *one_off.cosine_mean_error);
  EXPECT_NEAR(*all_off.cosine_mean, c, 4 * *all_off.cosine_mean_error);
  EXPECT_NEAR(*one_off.cosine_pooled, 0.75 + 0.25 * pair, 0.01) << "norms agree within a percent";
  EXPECT_LT(*strict.norm_std, *one_off.norm_std);
}

TEST_F(Engine, ExactDirectionSumReplacesTheEstimate) {
  const Gradients gradients = correlated(8, kElements, 0.1, 0.3, engine_);
  Gradient sum(kElements, 0.0);
  for (const Gradient& gradient : gradients) {
    const double length = norm(gradient);
    for (std::size_t e = 0; e < kElements; ++e) sum[e] += gradient[e] / length;
  }
  Step step = without_sketches(make_step(gradients, sketch_));
  for (Record& record : step.records) record.direction_sum_squares = inner(sum, sum);
  const StepStats stats = StatsEngine().update(step);
  EXPECT_TRUE(stats.cosine_exact);
  EXPECT_NEAR(*stats.cosine_mean, mean_pairwise_cosine(gradients), 1e-9);
  EXPECT_EQ(stats.cosine_mean_error, 0.0);

  step.records[0].gradient.nonfinite = 1;
  EXPECT_FALSE(StatsEngine().update(step).cosine_exact) << "the host's sum has a vector in it that is none";
}

TEST_F(Engine, OrderOfArrivalChangesNoBit) {
  Step step = make_step(correlated(9, kElements, 0.3, 0.4, engine_), sketch_);
  for (Record& record : step.records) {
    record.loss_sum = 0.1 * record.rank + 1.0 / 3;
    record.loss_count = 1;
    record.tokens = record.rank + 1;
    record.token_loss_sum = record.loss_sum * (record.rank + 1);
  }
  const StatsOptions options{.cosine_matrix = true};
  const StepStats sorted = StatsEngine(options).update(step);
  std::shuffle(step.records.begin(), step.records.end(), engine_);
  const StepStats shuffled = StatsEngine(options).update(step);
  EXPECT_EQ(gradient_metrics(sorted), gradient_metrics(shuffled));
  EXPECT_EQ(sorted.loss_std, shuffled.loss_std);
  EXPECT_EQ(sorted.token_loss, shuffled.token_loss);
  EXPECT_EQ(sorted.cosine_matrix, shuffled.cosine_matrix);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(shuffled.ranks[i].rank, i);
    EXPECT_EQ(sorted.ranks[i].leave_one_out, shuffled.ranks[i].leave_one_out);
  }
}

TEST_F(Engine, NothingObservedGivesNoVerdictOfAnyKind) {
  Step step;
  step.world = 4;
  step.records.resize(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) step.records[rank].rank = rank;
  for (const Step& empty : {step, Step{}}) {
    const StepStats stats = StatsEngine({.cosine_matrix = true}).update(empty);
    for (const Metric& metric : gradient_metrics(stats)) EXPECT_FALSE(metric);
    for (const Metric& metric :
         {stats.loss_mean, stats.loss_std, stats.loss_range, stats.token_loss, stats.reduced_norm})
      EXPECT_FALSE(metric);
    EXPECT_TRUE(stats.cosine_matrix.empty());
    EXPECT_EQ(stats.workers, empty.records.size());
  }
}

TEST_F(Engine, OneWorkerHasNormsButNoDispersionAndNoDirection) {
  const StepStats stats =
      StatsEngine({.cosine_matrix = true}).update(make_step({gaussian(kElements, engine_)}, sketch_));
  for (const Metric& metric : direction_metrics(stats)) EXPECT_FALSE(metric);
  EXPECT_FALSE(stats.norm_std);
  EXPECT_TRUE(stats.norm_mean);
  EXPECT_TRUE(stats.mean_norm);
  EXPECT_FALSE(stats.ranks[0].leave_one_out);
  EXPECT_TRUE(stats.cosine_matrix.empty());
  EXPECT_LT(*stats.reduction_gap, 1e-6) << "a reduction over one rank can be checked all the same";
}

TEST_F(Engine, ZeroGradientsHaveNoDirection) {
  const StepStats stats = StatsEngine().update(make_step(Gradients(4, Gradient(kElements, 0.0)), sketch_));
  for (const Metric& metric : direction_metrics(stats)) EXPECT_FALSE(metric);
  EXPECT_EQ(stats.norm_mean, 0.0);
  EXPECT_EQ(stats.mean_norm, 0.0);
  EXPECT_FALSE(stats.norm_cv);
  EXPECT_FALSE(stats.reduction_gap);
}

TEST_F(Engine, OneZeroGradientCountsInThePoolButHasNoCosine) {
  Gradients gradients = correlated(5, kElements, 0.5, 0.2, engine_);
  gradients[2].assign(kElements, 0.0);
  const StepStats stats = StatsEngine().update(make_step(gradients, sketch_));
  Gradients others = gradients;
  others.erase(others.begin() + 2);
  EXPECT_NEAR(*stats.cosine_mean, mean_pairwise_cosine(others), 4 * *stats.cosine_mean_error);
  EXPECT_FALSE(stats.ranks[2].leave_one_out);
  EXPECT_TRUE(stats.ranks[1].leave_one_out);
  EXPECT_NEAR(*stats.cosine_pooled, *stats.cosine_pooled_sketch, 4 * std::sqrt(2.0 / kDim)) << "both over five workers";
  EXPECT_LT(*stats.reduction_gap, 1e-6);
}

TEST_F(Engine, RankWithNonFiniteElementsKeepsANormAndLosesItsDirection) {
  const Gradients gradients = correlated(5, kElements, 0.5, 0.2, engine_);
  Step step = make_step(gradients, sketch_);
  step.records[1].gradient.nonfinite = 2;
  const StepStats stats = StatsEngine().update(step);
  Gradients sound = gradients;
  sound.erase(sound.begin() + 1);
  EXPECT_TRUE(stats.ranks[1].norm);
  EXPECT_FALSE(stats.ranks[1].leave_one_out);
  EXPECT_NEAR(*stats.cosine_mean, mean_pairwise_cosine(sound), 4 * *stats.cosine_mean_error);
  EXPECT_FALSE(stats.cosine_pooled) << "G is not the mean over the ranks that are left";
  EXPECT_TRUE(stats.cosine_pooled_sketch);
}

TEST_F(Engine, AllNonFiniteGivesNoVerdict) {
  Step step = make_step(correlated(4, kElements, 0.5, 0.2, engine_), sketch_);
  for (Record& record : step.records) record.gradient.nonfinite = record.gradient.count;
  const StepStats stats = StatsEngine().update(step);
  for (const Metric& metric : gradient_metrics(stats)) EXPECT_FALSE(metric);
}

TEST_F(Engine, StepsBetweenSketchesKeepTheExactScalars) {
  const Gradients gradients = correlated(8, kElements, 0.3, 0.2, engine_);
  const StepStats full = StatsEngine().update(make_step(gradients, sketch_));
  const StepStats scalars = StatsEngine().update(without_sketches(make_step(gradients, sketch_)));
  EXPECT_EQ(scalars.norm_std, full.norm_std);
  EXPECT_NEAR(*scalars.cosine_pooled, *full.cosine_pooled, 1e-12);
  EXPECT_TRUE(scalars.noise_ratio_smooth);
  EXPECT_FALSE(scalars.cosine_mean);
  EXPECT_FALSE(scalars.cosine_pooled_sketch);
  EXPECT_FALSE(scalars.mean_norm);
  EXPECT_FALSE(scalars.reduction_gap);
}

TEST_F(Engine, SketchesOfUnequalSizeCountAsMissing) {
  Step step = make_step(correlated(4, kElements, 0.5, 0.2, engine_), sketch_);
  step.records[3].gradient.sketch.resize(kDim / 2);
  const StepStats stats = StatsEngine().update(step);
  EXPECT_FALSE(stats.cosine_mean);
  EXPECT_FALSE(stats.ranks[0].leave_one_out);
  EXPECT_TRUE(stats.cosine_pooled) << "scalars need no sketch";
}

TEST_F(Engine, SketchThatContradictsItsNormIsNotUsed) {
  const Gradients gradients = correlated(4, kElements, 0.5, 0.2, engine_);
  for (const float poison : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Step step = make_step(gradients, sketch_);
    step.records[1].gradient.sketch[7] = poison;
    step.records[2].gradient.sketch.assign(kDim, 0.0F);
    const StepStats stats = StatsEngine().update(step);
    EXPECT_FALSE(stats.ranks[1].leave_one_out);
    EXPECT_FALSE(stats.ranks[2].leave_one_out);
    EXPECT_NEAR(*stats.cosine_mean, cosine(gradients[0], gradients[3]), 4 * *stats.cosine_mean_error);
    EXPECT_FALSE(stats.reduction_gap);
  }
}

TEST_F(Engine, MissingRanksTakeTheExactPooledCosineWithThem) {
  Step step = make_step(correlated(5, kElements, 0.5, 0.2, engine_), sketch_);
  step.records.erase(step.records.begin() + 2);
  step.missing = {2};
  const StepStats stats = StatsEngine().update(step);
  EXPECT_EQ(stats.workers, 4U);
  EXPECT_EQ(stats.missing, 1U);
  EXPECT_FALSE(stats.cosine_pooled);
  EXPECT_TRUE(stats.cosine_pooled_sketch);
  EXPECT_EQ(stats.ranks[2].rank, 3U);
}

TEST_F(Engine, InvalidSmoothingFallsBackToTheDefault) {
  const Gradients noisy = correlated(4, kElements, 0.3, 0, engine_), calm = correlated(4, kElements, 0.9, 0, engine_);
  StatsEngine reference, broken({.noise_smoothing = std::numeric_limits<double>::quiet_NaN()});
  for (const Gradients& gradients : {noisy, calm, noisy}) {
    const Step step = make_step(gradients, sketch_);
    EXPECT_EQ(reference.update(step).noise_ratio_smooth, broken.update(step).noise_ratio_smooth);
  }
}

TEST_F(Engine, MovesWithItsHistory) {
  const Step noisy = make_step(correlated(4, kElements, 0.3, 0, engine_), sketch_);
  const Step calm = make_step(correlated(4, kElements, 0.9, 0, engine_), sketch_);
  StatsEngine reference, first;
  reference.update(noisy);
  first.update(noisy);
  StatsEngine second(std::move(first));
  StatsEngine third;
  third = std::move(second);
  EXPECT_EQ(reference.update(calm).noise_ratio_smooth, third.update(calm).noise_ratio_smooth);
}

TEST(EngineAtScale, SixteenThousandWorkersWithShortSketches) {
  // The widths that the formulas meet at N = 16,384, with few bins so that the test stays small.
  constexpr std::uint32_t kWorkers = 16384;
  std::mt19937_64 engine(kSeed);
  std::cout << "seed " << kSeed << "\n";
  std::normal_distribution<float> normal;
  constexpr std::uint32_t kBins = 256;
  std::vector<float> common(kBins);
  for (float& bin : common) bin = normal(engine);
  Step step;
  step.world = kWorkers;
  step.records.resize(kWorkers);
  for (std::uint32_t rank = 0; rank < kWorkers; ++rank) {
    GradientRecord& gradient = step.records[rank].gradient;
    step.records[rank].rank = rank;
    gradient.observed = true;
    gradient.count = 1000;
    gradient.sum_squares = kBins;
    gradient.sketch.resize(kBins);
    for (std::uint32_t b = 0; b < kBins; ++b)
      gradient.sketch[b] = std::sqrt(0.1F) * common[b] + std::sqrt(0.9F) * normal(engine);
  }
  const StepStats stats = StatsEngine({.cosine_matrix = true}).update(step);
  EXPECT_NEAR(*stats.cosine_mean, 0.1, 4 * *stats.cosine_mean_error);
  EXPECT_NEAR(*stats.cosine_mean_error, std::sqrt(2.0 / kBins) * 0.1 * 0.9, 0.2 * std::sqrt(2.0 / kBins) * 0.1);
  EXPECT_NEAR(*stats.ranks[9999].leave_one_out, std::sqrt(0.1), 5 * 0.9 / std::sqrt(kBins));
  EXPECT_TRUE(stats.cosine_matrix.empty());
}

}  // namespace
}  // namespace lockstep::stats
