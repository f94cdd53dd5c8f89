#include "stats/row_kernels.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <random>
#include <vector>

namespace lockstep::stats {
namespace {

struct Rows {
  explicit Rows(std::size_t k, std::uint64_t seed) : a(k), b(k) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    for (auto& row : data) {
      row.resize(k + 1);
      for (float& value : row) value = static_cast<float>(normal(engine));
    }
    for (double& value : a) value = normal(engine);
    for (double& value : b) value = normal(engine);
    for (std::size_t r = 0; r < kRowBlock; ++r) block[r] = data[r].data() + 1;  // off any vector's alignment
  }
  std::array<std::vector<float>, kRowBlock> data;
  std::vector<double> a, b;
  RowBlock block{};
};

// All instruction sets that this machine has, and lengths around the vector sizes with and without a remainder.
class RowKernels : public testing::TestWithParam<std::size_t> {
 protected:
  template <class Check>
  void on_every_target(Check check) {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      SCOPED_TRACE(hwy::TargetName(target));
      hwy::SetSupportedTargetsForTest(target);
      check();
    }
    hwy::SetSupportedTargetsForTest(0);
  }
};

constexpr double kTolerance = 1e-12;  // of sums of at most 4096 products of order one

TEST_P(RowKernels, ProductsEqualPlainLoops) {
  const std::size_t k = GetParam();
  const Rows rows(k, 7);
  on_every_target([&] {
    RowValues with_a, with_b;
    products(rows.block, rows.a.data(), rows.b.data(), k, with_a, with_b);
    for (std::size_t r = 0; r < kRowBlock; ++r) {
      double expected_a = 0, expected_b = 0, expected_dot = 0, square = 0, product = 0;
      for (std::size_t i = 0; i < k; ++i) {
        const double x = rows.block[r][i];
        expected_a += x * rows.a[i];
        expected_b += x * rows.b[i];
        expected_dot += x * rows.block[0][i];
        square += (rows.a[i] - x) * (rows.a[i] - x);
        product += x * (rows.a[i] - x);
      }
      const double tolerance = kTolerance * static_cast<double>(k + 1);
      EXPECT_NEAR(with_a[r], expected_a, tolerance);
      EXPECT_NEAR(with_b[r], expected_b, tolerance);
      EXPECT_NEAR(dot(rows.block[r], rows.block[0], k), expected_dot, tolerance);
      const Remainder rest = remainder(rows.block[r], rows.a.data(), k);
      EXPECT_NEAR(rest.square, square, tolerance);
      EXPECT_NEAR(rest.product, product, tolerance);
    }
  });
}

TEST_P(RowKernels, SumsEqualPlainLoops) {
  const std::size_t k = GetParam();
  const Rows rows(k, 8);
  const RowValues weights = {0.5, -2.0, 0.0, 3.0};
  on_every_target([&] {
    std::vector<double> sum = rows.a, weighted = rows.b, pulled = rows.b;
    add_rows(rows.block, weights, sum.data(), weighted.data(), k);
    add_rows(rows.block, weights, pulled.data(), k);
    for (std::size_t i = 0; i < k; ++i) {
      double expected_sum = rows.a[i], expected_weighted = rows.b[i];
      for (std::size_t r = 0; r < kRowBlock; ++r) {
        expected_sum += rows.block[r][i];
        expected_weighted += weights[r] * rows.block[r][i];
      }
      EXPECT_NEAR(sum[i], expected_sum, kTolerance);
      EXPECT_NEAR(weighted[i], expected_weighted, kTolerance);
      EXPECT_NEAR(pulled[i], expected_weighted, kTolerance);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Lengths, RowKernels, testing::Values(0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 256, 4096));

}  // namespace
}  // namespace lockstep::stats
