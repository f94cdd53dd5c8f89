// The loops against plain scalar ones, at lengths around the vector width and on unaligned memory. That they agree with
// the layers they serve is in layers_test.cc; this runs under the sanitizers too.
#include "train/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace lockstep::train::kernels {
namespace {

std::vector<float> random(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(engine);
  return out;
}

const std::size_t kLengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100};

TEST(Kernels, RmsNormAgreesWithScalarLoops) {
  for (const std::size_t width : kLengths) {
    const auto x = random(3 * width + 1, 1), w = random(width, 2), dy = random(3 * width, 3);
    std::vector<float> y(3 * width), dx(3 * width), r(3), dw(width, 0.5f);
    rms_norm_forward(x.data() + 1, w.data(), 1e-5f, 3, width, y.data(), r.data());
    rms_norm_backward(dy.data(), x.data() + 1, w.data(), r.data(), 3, width, dx.data(), dw.data());
    std::vector<double> expected_dw(width, 0.5);
    for (std::size_t row = 0; row < 3; ++row) {
      const float* in = x.data() + 1 + row * width;
      const float* up = dy.data() + row * width;
      double squares = 0, dot = 0;
      for (std::size_t i = 0; i < width; ++i) squares += double(in[i]) * in[i];
      const double inverse = 1 / std::sqrt(squares / double(width) + 1e-5);
      for (std::size_t i = 0; i < width; ++i) dot += double(up[i]) * w[i] * in[i];
      ASSERT_NEAR(r[row], inverse, 1e-5 * inverse);
      for (std::size_t i = 0; i < width; ++i) {
        ASSERT_NEAR(y[row * width + i], in[i] * inverse * w[i], 1e-4);
        const double slope = inverse * up[i] * w[i] - in[i] * std::pow(inverse, 3) * dot / double(width);
        ASSERT_NEAR(dx[row * width + i], slope, 1e-3 * std::max(1.0, inverse));
        expected_dw[i] += up[i] * in[i] * inverse;
      }
    }
    for (std::size_t i = 0; i < width; ++i) ASSERT_NEAR(dw[i], expected_dw[i], 1e-4);
  }
}

TEST(Kernels, CausalSoftmaxRowsSumToOneAndZeroTheFuture) {
  for (const std::size_t positions : kLengths) {
    auto scores = random(2 * positions * positions, 4);
    const auto before = scores;
    causal_softmax_forward(scores.data(), 0, 2 * positions, positions, 0.5f);
    for (std::size_t row = 0; row < 2 * positions; ++row) {
      const std::size_t seen = row % positions + 1;
      double total = 0, expected_total = 0;
      for (std::size_t j = 0; j < seen; ++j) expected_total += std::exp(0.5 * before[row * positions + j]);
      for (std::size_t j = 0; j < positions; ++j) {
        const double got = scores[row * positions + j];
        total += got;
        const double expected = j < seen ? std::exp(0.5 * before[row * positions + j]) / expected_total : 0.0;
        ASSERT_NEAR(got, expected, 1e-6);
      }
      ASSERT_NEAR(total, 1.0, 1e-5);
    }
  }
}

TEST(Kernels, CausalSoftmaxDoesNotDependOnTheSplitOfTheRows) {
  const std::size_t positions = 21;
  auto whole = random(positions * positions, 5);
  auto split = whole;
  causal_softmax_forward(whole.data(), 0, positions, positions, 1.0f);
  causal_softmax_forward(split.data(), 0, 4, positions, 1.0f);
  causal_softmax_forward(split.data() + 4 * positions, 4, positions - 4, positions, 1.0f);
  EXPECT_EQ(whole, split);
}

TEST(Kernels, CausalSoftmaxSurvivesLargeScores) {
  std::vector<float> scores = {1e30f, 0, -1e30f, 1e30f};
  causal_softmax_forward(scores.data(), 0, 2, 2, 1.0f);
  EXPECT_EQ(scores, (std::vector<float>{1, 0, 0, 1}));
}

TEST(Kernels, RotationBackUndoesTheRotation) {
  for (const std::size_t half : {1, 3, 8, 20}) {
    const auto x = random(2 * half, 6), angles = random(half, 7);
    std::vector<float> cos(half), sin(half), turned(2 * half), back(2 * half);
    for (std::size_t i = 0; i < half; ++i) cos[i] = std::cos(angles[i]), sin[i] = std::sin(angles[i]);
    rotate_head(x.data(), cos.data(), sin.data(), 2 * half, 1.0f, turned.data());
    rotate_head(turned.data(), cos.data(), sin.data(), 2 * half, -1.0f, back.data());
    for (std::size_t i = 0; i < 2 * half; ++i) ASSERT_NEAR(back[i], x[i], 1e-5);
    ASSERT_NEAR(turned[0], x[0] * cos[0] - x[half] * sin[0], 1e-5);
  }
}

TEST(Kernels, SumOfSquaresIsExactInFp64) {
  for (const std::size_t count : kLengths) {
    const auto x = random(count, 8);
    double expected = 0;
    for (const float value : x) expected += double(value) * value;
    EXPECT_NEAR(sum_of_squares(x.data(), count), expected, 1e-13 * expected);
  }
  EXPECT_EQ(sum_of_squares(nullptr, 0), 0.0);
  const float huge[] = {1e38f, 1e38f};
  EXPECT_TRUE(std::isfinite(sum_of_squares(huge, 2))) << "squares beyond fp32 stay finite";
}

}  // namespace
}  // namespace lockstep::train::kernels
