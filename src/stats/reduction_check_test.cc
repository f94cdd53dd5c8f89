#include "stats/reduction_check.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "stats/gradient_fixture.h"

namespace lockstep::stats {
namespace {

constexpr std::uint32_t kDim = 1024;
constexpr std::size_t kElements = 5000;
constexpr std::uint64_t kSeed = 77;

class Reduction : public testing::Test {
 protected:
  Reduction() : sketch_(kElements, kDim, kSeed) {
    std::mt19937_64 engine(kSeed);
    gradients_ = correlated(6, kElements, 0.2, 0.2, engine);
  }
  void hold(Step& step, std::size_t rank, const Gradient& reduced) const {
    step.records[rank].reduced = scalars_of(reduced);
    step.records[rank].reduced.sketch = sketch_(reduced, kReducedDim);
  }
  double true_pooled() const {
    double s2 = 0;
    for (const Gradient& gradient : gradients_) s2 += inner(gradient, gradient) / 6;
    const Gradient mean = mean_of(gradients_);
    return (6 * inner(mean, mean) / s2 - 1) / 5;
  }
  CountSketch sketch_;
  Gradients gradients_;
};

TEST_F(Reduction, FoldedSketchIsTheSmallSketchOfTheSameElements) {
  const std::vector<float> large = sketch_(gradients_[0]);
  const std::vector<double> folded = fold(std::vector<double>(large.begin(), large.end()), kReducedDim);
  const std::vector<float> small = sketch_(gradients_[0], kReducedDim);
  for (std::size_t b = 0; b < kReducedDim; ++b) EXPECT_NEAR(folded[b], small[b], 1e-5);
}

TEST_F(Reduction, HealthyReductionLeavesOnlyRounding) {
  const StepStats stats = StatsEngine().update(make_step(gradients_, sketch_));
  EXPECT_LT(*stats.reduction_gap, 1e-6);
  EXPECT_NEAR(*stats.reduction_scale, 1, 1e-6);
  EXPECT_NEAR(*stats.cosine_pooled, true_pooled(), 1e-6 * true_pooled());
}

TEST_F(Reduction, CommonFactorIsNoGapAndDoesNotChangeThePooledCosine) {
  for (const double factor : {0.999, 0.03, 6.0, 1024.0}) {
    const StepStats stats = StatsEngine().update(make_step(gradients_, sketch_, factor));
    EXPECT_LT(*stats.reduction_gap, 1e-6);
    EXPECT_NEAR(*stats.reduction_scale, factor, 1e-6 * factor);
    EXPECT_NEAR(*stats.cosine_pooled, true_pooled(), 1e-6 * true_pooled());
    EXPECT_NEAR(*stats.reduced_norm, factor * norm(mean_of(gradients_)), 1e-9 * factor);
  }
}

TEST_F(Reduction, SixteenBitRoundingIsReportedAsTheGapItIs) {
  Step step = make_step(gradients_, sketch_);
  Gradient rounded = mean_of(gradients_);
  for (double& element : rounded) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(element)) + 0x8000U;
    element = std::bit_cast<float>(bits & 0xffff0000U);
  }
  for (std::size_t rank = 0; rank < 6; ++rank) hold(step, rank, rounded);
  const StepStats stats = StatsEngine().update(step);
  EXPECT_GT(*stats.reduction_gap, 1e-4);
  EXPECT_LT(*stats.reduction_gap, 1e-2);
  EXPECT_NEAR(*stats.cosine_pooled, true_pooled(), 2e-3);
}

TEST_F(Reduction, RankWithACorruptedResultHasTheGapAndTheOthersDoNot) {
  Step step = make_step(gradients_, sketch_);
  Gradient corrupted = mean_of(gradients_);
  corrupted[1234] += 0.5 * norm(corrupted);
  hold(step, 4, corrupted);
  const StepStats stats = StatsEngine().update(step);
  EXPECT_NEAR(*stats.ranks[4].reduction_gap, 0.5, 0.5 * 4 * std::sqrt(2.0 / kReducedDim));
  EXPECT_LT(*stats.ranks[3].reduction_gap, 1e-6);
  EXPECT_EQ(stats.reduction_gap, stats.ranks[4].reduction_gap);
}

TEST_F(Reduction, RankWithAScaleOrSignOfItsOwnHasAGap) {
  for (const double factor : {-1.0, 0.5, 1e12, 0.0}) {
    Step step = make_step(gradients_, sketch_);
    Gradient own = mean_of(gradients_);
    for (double& element : own) element *= factor;
    hold(step, 0, own);
    const StepStats stats = StatsEngine().update(step);
    EXPECT_NEAR(*stats.reduction_scale, 1, 1e-6);
    EXPECT_NEAR(*stats.ranks[0].reduction_gap / std::abs(factor - 1), 1, 1e-5);
    EXPECT_NEAR(*stats.cosine_pooled, true_pooled(), 1e-6) << "taken from a rank that holds the mean";
  }
}

TEST_F(Reduction, OfTwoRanksTheDamagedOneIsNotTakenForTheTruth) {
  gradients_.resize(2);
  for (const double factor : {-1.0, 0.0, 0.01, 1e12}) {
    Step step = make_step(gradients_, sketch_);
    Gradient own = mean_of(gradients_);
    for (double& element : own) element *= factor;
    hold(step, 1, own);
    const StepStats stats = StatsEngine().update(step);
    EXPECT_NEAR(*stats.reduction_scale, 1, 1e-6);
    EXPECT_LT(*stats.ranks[0].reduction_gap, 1e-6);
  }
}

TEST_F(Reduction, MissingReductionShowsOnEveryRankAndGivesNoExactPooledCosine) {
  Step step = make_step(gradients_, sketch_);
  for (std::size_t rank = 0; rank < 6; ++rank) hold(step, rank, gradients_[rank]);
  const StepStats stats = StatsEngine().update(step);
  for (const RankStats& rank : stats.ranks) EXPECT_GT(*rank.reduction_gap, 0.5);
  EXPECT_FALSE(stats.cosine_pooled);
  EXPECT_TRUE(stats.cosine_pooled_sketch);
}

TEST_F(Reduction, AllZeroResultIsAGapOfOne) {
  const StepStats stats = StatsEngine().update(make_step(gradients_, sketch_, 0));
  EXPECT_EQ(stats.reduction_scale, 0.0);
  EXPECT_NEAR(*stats.reduction_gap, 1, 1e-9);
  EXPECT_FALSE(stats.cosine_pooled);
}

TEST_F(Reduction, NoVerdictUnlessEveryRankIsHereWithASoundSketchedGradient) {
  const Step healthy = make_step(gradients_, sketch_);
  Step absent = healthy, unsound = healthy, unsketched = healthy, odd = healthy;
  absent.records.pop_back();
  absent.missing = {5};
  unsound.records[2].gradient.nonfinite = 1;
  unsketched.records[2].gradient.sketch = {};
  for (Record& record : odd.records) record.reduced.sketch.resize(100);  // not a divisor of k
  for (const Step& step : {absent, unsound, unsketched, odd}) {
    const StepStats stats = StatsEngine().update(step);
    EXPECT_FALSE(stats.reduction_gap);
    EXPECT_FALSE(stats.reduction_scale);
    EXPECT_FALSE(stats.ranks[0].reduction_gap);
  }
}

TEST_F(Reduction, RankWithNonFiniteResultHasNoGapAndSpoilsNoOther) {
  Step step = make_step(gradients_, sketch_);
  step.records[0].reduced.nonfinite = 3;
  const StepStats stats = StatsEngine().update(step);
  EXPECT_FALSE(stats.ranks[0].reduction_gap);
  EXPECT_LT(*stats.reduction_gap, 1e-6);
  EXPECT_TRUE(stats.cosine_pooled) << "from the lowest rank whose result is sound";
}

TEST_F(Reduction, ClippingSeenOnceEndsTheTrustInNormsWithoutSketches) {
  StatsEngine engine;
  const Step clipped = make_step(gradients_, sketch_, 0.25), plain = make_step(gradients_, sketch_);
  EXPECT_NEAR(*engine.update(without_sketches(plain)).cosine_pooled, true_pooled(), 1e-6);
  engine.update(plain);
  EXPECT_TRUE(engine.update(without_sketches(plain)).cosine_pooled);
  EXPECT_TRUE(engine.update(clipped).cosine_pooled);
  EXPECT_FALSE(engine.update(without_sketches(clipped)).cosine_pooled) << "would be wrong by the unknown factor";
  EXPECT_FALSE(engine.update(without_sketches(clipped)).noise_ratio);
  EXPECT_TRUE(engine.update(plain).cosine_pooled);
}

TEST_F(Reduction, ImpossiblyLargeResultGivesNoPooledCosine) {
  EXPECT_FALSE(StatsEngine().update(without_sketches(make_step(gradients_, sketch_, 6))).cosine_pooled);
}

}  // namespace
}  // namespace lockstep::stats
