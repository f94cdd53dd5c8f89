// The error bars are claims about frequencies, so they are tested as such: many independent sketches of fixed
// gradients.
#include "stats/cosine.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <string>

#include "stats/gradient_fixture.h"

namespace lockstep::stats {
namespace {

constexpr std::uint32_t kDim = 1024;       // of the sketches
constexpr std::size_t kElements = 4096;    // of the gradients
constexpr std::uint64_t kSeed = 20240611;  // of the gradients; sketch seeds count up from it
constexpr int kSketches = 800;

MeanCosine estimate(const Gradients& gradients, const CountSketch& sketch) {
  const Step step = make_step(gradients, sketch);
  return mean_cosine(sketch_moments(view_of(step)));
}

struct Coverage {
  double one = 0, two = 0;  // share of sketches whose estimate lies within one, two error bars of the truth
  double bias = 0;          // mean of (estimate - truth) / error bar
};

Coverage coverage(const Gradients& gradients) {
  std::cout << "seeds " << kSeed << " + 0.." << kSketches - 1 << "\n";
  const double truth = mean_pairwise_cosine(gradients);
  Step step = make_step(gradients, CountSketch(kElements, kDim, kSeed));
  Coverage result;
  for (int s = 0; s < kSketches; ++s) {
    const CountSketch sketch(kElements, kDim, kSeed + s);
    for (std::size_t i = 0; i < gradients.size(); ++i) step.records[i].gradient.sketch = sketch(gradients[i]);
    const MeanCosine cosine = mean_cosine(sketch_moments(view_of(step)));
    const double deviation = (*cosine.value - truth) / *cosine.error;
    result.one += std::abs(deviation) <= 1;
    result.two += std::abs(deviation) <= 2;
    result.bias += deviation;
  }
  for (double* value : {&result.one, &result.two, &result.bias}) *value /= kSketches;
  std::cout << "within one bar " << result.one << ", two " << result.two << ", bias in bars " << result.bias << "\n";
  return result;
}

Gradients two_groups(std::mt19937_64& engine) {
  const Gradient a = gaussian(kElements, engine), b = gaussian(kElements, engine);
  return {a, b, a, b, a, b, a, b};
}

Gradients one_outlier(std::mt19937_64& engine) {
  Gradients gradients = correlated(8, kElements, 0.9, 0.1, engine);
  gradients[3] = gaussian(kElements, engine);
  return gradients;
}

struct Case {
  std::string name;
  std::function<Gradients(std::mt19937_64&)> make;
};

class ErrorBar : public testing::TestWithParam<Case> {};

TEST_P(ErrorBar, HoldsAtTheStatedRate) {
  std::mt19937_64 engine(kSeed);
  const Coverage seen = coverage(GetParam().make(engine));
  // 68.3 % and 95.4 % for Gaussian errors; four standard deviations of the count of 800 are 6.6 % and 3 %.
  EXPECT_NEAR(seen.one, 0.683, 0.066);
  EXPECT_NEAR(seen.two, 0.954, 0.03);
  EXPECT_NEAR(seen.bias, 0, 0.15) << "four standard deviations of the mean";
}

INSTANTIATE_TEST_SUITE_P(
    Workers, ErrorBar,
    testing::Values(Case{"Orthogonal", [](auto& e) { return correlated(8, kElements, 0, 0.1, e); }},
                    Case{"OrthogonalPair", [](auto& e) { return correlated(2, kElements, 0, 0.1, e); }},
                    Case{"FaintlyCorrelated", [](auto& e) { return correlated(8, kElements, 0.05, 0.2, e); }},
                    Case{"HalfCorrelated", [](auto& e) { return correlated(8, kElements, 0.5, 0.2, e); }},
                    Case{"HighlyCorrelated", [](auto& e) { return correlated(8, kElements, 0.97, 0.2, e); }},
                    Case{"HighlyCorrelatedPair", [](auto& e) { return correlated(2, kElements, 0.97, 0.2, e); }},
                    Case{"UnequalNorms", [](auto& e) { return correlated(8, kElements, 0.3, 1.5, e); }},
                    Case{"TwoGroups", two_groups}, Case{"OneOutlier", one_outlier},
                    Case{"MoreThanTheSample", [](auto& e) { return correlated(48, kElements, 0.2, 0.2, e); }}),
    [](const auto& info) { return info.param.name; });

TEST(MeanCosine, ErrorBarIsConservativeForGradientsOfFewLargeElements) {
  // Half of the energy in ten elements that all workers share: collisions, the source of error, are rarer than assumed.
  std::mt19937_64 engine(kSeed);
  Gradients gradients = correlated(8, kElements, 0.2, 0.1, engine);
  for (Gradient& gradient : gradients) {
    for (std::size_t e = 0; e < 10; ++e) gradient[e] = std::sqrt(kElements / 10.0);
  }
  const Coverage seen = coverage(gradients);
  EXPECT_GE(seen.one, 0.683 - 0.066);
  EXPECT_GE(seen.two, 0.954 - 0.03);
}

TEST(MeanCosine, IdenticalWorkersHaveCosineOneWithoutError) {
  std::mt19937_64 engine(kSeed);
  for (const std::size_t n : {2, 3, 8, 100}) {
    const Gradients gradients(n, gaussian(kElements, engine));
    const MeanCosine cosine = estimate(gradients, CountSketch(kElements, kDim, 5));
    EXPECT_NEAR(*cosine.value, 1, 1e-12);
    EXPECT_LE(*cosine.value, 1);
    EXPECT_LT(*cosine.error, 1e-12);
  }
}

TEST(MeanCosine, OpposedWorkersStayInsideTheRange) {
  std::mt19937_64 engine(kSeed);
  Gradients gradients(2, gaussian(kElements, engine));
  for (double& element : gradients[1]) element *= -3;
  const MeanCosine cosine = estimate(gradients, CountSketch(kElements, kDim, 5));
  EXPECT_NEAR(*cosine.value, -1, 1e-6);
  EXPECT_GE(*cosine.value, -1);
  EXPECT_LT(*cosine.error, 1e-6);
}

TEST(MeanCosine, OwnLengthsGiveSmallerErrorsThanExactNorms) {
  // What the two estimators with exact norms would have said: one subtracts n, the other the sketches' own squares.
  std::mt19937_64 engine(kSeed);
  std::cout << "seed " << kSeed << "\n";
  for (const double c : {0.05, 0.3, 0.9}) {
    const Gradients gradients = correlated(8, kElements, c, 0.2, engine);
    const double truth = mean_pairwise_cosine(gradients);
    double own = 0, subtract_n = 0, subtract_self = 0;
    for (int s = 0; s < 300; ++s) {
      const CountSketch sketch(kElements, kDim, kSeed + s);
      std::vector<double> sum(kDim, 0.0);
      double self = 0;
      for (const Gradient& gradient : gradients) {
        const std::vector<float> bins = sketch(gradient);
        const double length = norm(gradient);
        for (std::uint32_t b = 0; b < kDim; ++b) {
          const double bin = bins[b] / length;
          sum[b] += bin;
          self += bin * bin;
        }
      }
      const double square = inner(sum, sum);
      subtract_n += std::pow((square - 8) / 56 - truth, 2);
      subtract_self += std::pow((square - self) / 56 - truth, 2);
      own += std::pow(*estimate(gradients, sketch).value - truth, 2);
    }
    std::cout << "c " << c << ": rms error " << std::sqrt(own / 300) << " own lengths, "
              << std::sqrt(subtract_self / 300) << " exact norms less self terms, " << std::sqrt(subtract_n / 300)
              << " exact norms less n\n";
    EXPECT_LT(own, subtract_self);
    EXPECT_LT(subtract_self, subtract_n);
  }
}

TEST(MeanCosine, ExactDirectionSumGivesTheExactMean) {
  std::mt19937_64 engine(kSeed);
  const Gradients gradients = correlated(5, 300, 0.4, 1.0, engine);
  Gradient sum(300, 0.0);
  for (const Gradient& gradient : gradients) {
    const double length = norm(gradient);
    for (std::size_t e = 0; e < 300; ++e) sum[e] += gradient[e] / length;
  }
  EXPECT_NEAR(*mean_cosine(inner(sum, sum), 5).value, mean_pairwise_cosine(gradients), 1e-12);
  EXPECT_EQ(mean_cosine(inner(sum, sum), 5).error, 0.0);
  EXPECT_FALSE(mean_cosine(1, 1).value);
  EXPECT_EQ(mean_cosine(25.0000001, 5).value, 1.0) << "rounding does not take a cosine out of its range";
}

TEST(LeaveOneOut, LiesWithinItsErrorBarOfTheTrueCosine) {
  std::mt19937_64 engine(kSeed);
  const Gradients gradients = one_outlier(engine);
  std::vector<double> truth;
  for (const Gradient& gradient : gradients) {
    Gradient others = mean_of(gradients);
    for (std::size_t e = 0; e < kElements; ++e) others[e] = 8 * others[e] - gradient[e];
    truth.push_back(cosine(gradient, others));
  }
  std::cout << "seeds " << kSeed << " + 0..199\n";
  std::vector<int> inside(8, 0);
  for (int s = 0; s < 200; ++s) {
    const Step step = make_step(gradients, CountSketch(kElements, kDim, kSeed + s));
    const StepStats stats = StatsEngine().update(step);
    for (std::size_t i = 0; i < 8; ++i) {
      const double bar = (1 - truth[i] * truth[i]) / std::sqrt(kDim);
      inside[i] += std::abs(*stats.ranks[i].leave_one_out - truth[i]) <= 2 * bar;
    }
  }
  for (std::size_t i = 0; i < 8; ++i) EXPECT_GE(inside[i], 179) << "rank " << i << " of 95.4 % less four deviations";
  EXPECT_LT(truth[3], 0.1);
  EXPECT_GT(truth[0], 0.8);
}

TEST(LeaveOneOut, SurvivesARankThatIsATrillionTimesTooLarge) {
  std::mt19937_64 engine(kSeed);
  Gradients gradients = correlated(8, kElements, 0.5, 0, engine);
  const CountSketch sketch(kElements, kDim, 3);
  const StepStats before = StatsEngine().update(make_step(gradients, sketch));
  for (double& element : gradients[5]) element *= 1e10;
  const StepStats after = StatsEngine().update(make_step(gradients, sketch));
  EXPECT_NEAR(*after.ranks[5].leave_one_out, *before.ranks[5].leave_one_out, 1e-3);
  EXPECT_NEAR(*after.cosine_mean, *before.cosine_mean, 1e-6) << "directions do not care for sizes";
}

TEST(LeaveOneOut, NoVerdictWhereTheOthersCancel) {
  std::mt19937_64 engine(kSeed);
  Gradients gradients(3, gaussian(kElements, engine));
  for (double& element : gradients[2]) element = -element;
  const StepStats stats = StatsEngine().update(make_step(gradients, CountSketch(kElements, kDim, 3)));
  EXPECT_FALSE(stats.ranks[0].leave_one_out);
  EXPECT_FALSE(stats.ranks[1].leave_one_out);
  EXPECT_NEAR(*stats.ranks[2].leave_one_out, -1, 1e-6);
}

TEST(CosineMatrix, HoldsEveryPairWithinItsErrorBar) {
  std::mt19937_64 engine(kSeed);
  const Gradients gradients = one_outlier(engine);
  const Step step = make_step(gradients, CountSketch(kElements, kDim, 17));
  const StepStats stats = StatsEngine({.cosine_matrix = true}).update(step);
  ASSERT_EQ(stats.cosine_matrix.size(), 64U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(stats.cosine_matrix[i * 8 + i], 1.0F);
    for (std::size_t j = 0; j < i; ++j) {
      const double truth = cosine(gradients[i], gradients[j]);
      EXPECT_EQ(stats.cosine_matrix[i * 8 + j], stats.cosine_matrix[j * 8 + i]);
      EXPECT_NEAR(stats.cosine_matrix[i * 8 + j], truth, 5 * (1 - truth * truth) / std::sqrt(kDim));
    }
  }
}

TEST(CosineMatrix, IsOffByDefaultAboveItsLimitAndNaNWhereARankHasNoDirection) {
  std::mt19937_64 engine(kSeed);
  Gradients gradients = correlated(4, kElements, 0.5, 0, engine);
  gradients[2].assign(kElements, 0.0);
  const Step step = make_step(gradients, CountSketch(kElements, kDim, 17));
  EXPECT_TRUE(StatsEngine().update(step).cosine_matrix.empty());
  EXPECT_TRUE(StatsEngine({.cosine_matrix = true, .max_matrix_workers = 3}).update(step).cosine_matrix.empty());
  const std::vector<float> matrix = StatsEngine({.cosine_matrix = true}).update(step).cosine_matrix;
  ASSERT_EQ(matrix.size(), 16U);
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_TRUE(std::isnan(matrix[2 * 4 + j]));
    EXPECT_TRUE(std::isnan(matrix[j * 4 + 2]));
  }
  EXPECT_FALSE(std::isnan(matrix[3]));
}

}  // namespace
}  // namespace lockstep::stats
