// The sketch as a statistic: inner products are unbiased and a cosine's error has standard deviation near 1/sqrt(k), on
// vectors that break weaker sketches: heavy tails, sparse ones, periodic ones.
#include <functional>

#include "digest/test_data.h"

namespace lockstep::digests {
namespace {

constexpr std::uint32_t kDim = 1024;
constexpr int kSeeds = 400;
constexpr std::size_t kCount = 60000;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> sketch_of(const std::vector<float>& x, std::uint64_t seed) {
  const Segment segment{7, 0, x.data(), x.size(), DType::kFloat32};
  return digest({&segment, 1}, {.k = kDim, .seed = seed}).value().sketch;
}

// The count-sketch's variance of an inner product, from its definition: with independent signs and collisions at 1/k,
// Var = (|a|^2 |b|^2 + (a.b)^2 - 2 sum a_i^2 b_i^2) / k, less the pairs inside a block, which never collide.
double expected_variance(const std::vector<float>& a, const std::vector<float>& b) {
  double variance = 0;
  double aa = 0, bb = 0, ab = 0;
  const auto pairs = [](double aa, double bb, double ab) { return aa * bb + ab * ab; };
  for (std::size_t block = 0; block < a.size(); block += 256) {
    double block_aa = 0, block_bb = 0, block_ab = 0;
    for (std::size_t i = block; i < std::min(a.size(), block + 256); ++i) {
      block_aa += double(a[i]) * a[i];
      block_bb += double(b[i]) * b[i];
      block_ab += double(a[i]) * b[i];
    }
    variance -= pairs(block_aa, block_bb, block_ab);
    aa += block_aa, bb += block_bb, ab += block_ab;
  }
  return (variance + pairs(aa, bb, ab)) / kDim;
}

struct Case {
  const char* name;
  std::function<float(std::mt19937_64&, std::size_t)> next;
};

const Case kCases[] = {
    {"gaussian", [](std::mt19937_64& r, std::size_t) { return float(std::normal_distribution<>()(r)); }},
    {"heavy_tailed", [](std::mt19937_64& r, std::size_t) { return float(std::student_t_distribution<>(2.5)(r)); }},
    {"sparse",
     [](std::mt19937_64& r, std::size_t) { return r() % 100 ? 0.0f : float(std::normal_distribution<>()(r)); }},
    {"embedding_rows",  // few rows of 768 are touched, with the same few strong columns
     [](std::mt19937_64& r, std::size_t i) {
       return i / 768 % 7 == 0 ? float(std::normal_distribution<>()(r)) * (i % 768 % 16 == 3 ? 10 : 1) : 0.0f;
     }},
    {"periodic",  // one element in 256 carries everything: a bucket function of o mod 256 alone would fail here
     [](std::mt19937_64& r, std::size_t i) {
       return i % 256 == 5 ? float(1 + std::normal_distribution<>()(r)) : 0.0f;
     }},
    {"constant", [](std::mt19937_64&, std::size_t) { return 0.3f; }},
};

class Sketch : public testing::TestWithParam<Case> {};

TEST_P(Sketch, InnerProductsAreUnbiasedWithTheStatedVariance) {
  constexpr unsigned kSeed = 31;
  std::mt19937_64 random(kSeed);
  std::vector<float> a(kCount), b(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = GetParam().next(random, i);
    b[i] = 0.6f * a[i] + 0.8f * GetParam().next(random, i);  // correlated, as gradients of workers are
  }
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    aa += double(a[i]) * a[i], bb += double(b[i]) * b[i], ab += double(a[i]) * b[i];
  const double scale = std::sqrt(aa * bb);

  double sum = 0, sum_squares = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const std::uint64_t key = random();
    const double cosine_error = (dot(sketch_of(a, key), sketch_of(b, key)) - ab) / scale;
    sum += cosine_error;
    sum_squares += cosine_error * cosine_error;
  }
  const double mean = sum / kSeeds;
  const double deviation = std::sqrt(sum_squares / kSeeds);
  const double expected = std::sqrt(expected_variance(a, b)) / scale;
  std::printf("%s: seed %u, cos %.3f, mean error %.2e, std %.4f, expected %.4f, 1/sqrt(k) %.4f\n", GetParam().name,
              kSeed, ab / scale, mean, deviation, expected, 1 / std::sqrt(double(kDim)));
  // The mean of n errors has deviation std/sqrt(n); a sample deviation has relative error sqrt(kurtosis/4n), where
  // blocks that land on each other give a kurtosis of up to about 10. Five sigma of each.
  EXPECT_LT(std::fabs(mean), 5 * expected / std::sqrt(kSeeds));
  EXPECT_NEAR(deviation / expected, 1, 5 * std::sqrt(10.0 / (4 * kSeeds)));
  EXPECT_LT(expected, 1.42 / std::sqrt(double(kDim)));  // sqrt(1 + cos^2) at most
}

INSTANTIATE_TEST_SUITE_P(Vectors, Sketch, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SketchValues, NonFiniteElementsDoNotPoison) {
  std::mt19937_64 random(32);
  std::vector<float> clean(5000);
  for (float& x : clean) x = float(std::normal_distribution<>()(random));
  std::vector<float> dirty = clean;
  for (const std::size_t i : {0u, 255u, 256u, 4999u}) clean[i] = 0, dirty[i] = i % 2 ? std::nanf("1") : -HUGE_VALF;
  const Segment clean_segment{0, 0, clean.data(), clean.size(), DType::kFloat32};
  const Segment dirty_segment{0, 0, dirty.data(), dirty.size(), DType::kFloat32};
  const auto expected = digest({&clean_segment, 1}), actual = digest({&dirty_segment, 1});
  EXPECT_EQ(actual->nonfinite, 4u);
  EXPECT_EQ(actual->count, 5000u);
  EXPECT_EQ(actual->max_abs, expected->max_abs);
  EXPECT_NE(actual->hash, expected->hash);
  EXPECT_NEAR(actual->sum_squares / expected->sum_squares, 1, kTolerance);
  EXPECT_LT(relative_distance(actual->sketch, expected->sketch), kTolerance);
}

TEST(SketchValues, CopiesInAnotherDtypeHaveTheSameSketch) {
  std::vector<float> x(3000);
  std::mt19937_64 random(33);
  for (float& v : x) v = float(int(random() % 255) - 127) / 64;  // exact in every dtype
  std::vector<std::vector<double>> sketches;
  for (const DType dtype : kAllDTypes) {
    const auto bytes = encode(dtype, x.size(), [&, i = 0]() mutable { return double(x[i++]); });
    const Segment segment = segment_of(bytes, dtype);
    sketches.push_back(digest({&segment, 1})->sketch);
  }
  for (const auto& sketch : sketches) EXPECT_EQ(sketch, sketches[0]);
}

TEST(SketchValues, IsLinear) {
  std::mt19937_64 random(34);
  std::vector<float> a(9000), b(9000), mean(9000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = float(std::normal_distribution<>()(random));
    b[i] = float(std::normal_distribution<>()(random));
    mean[i] = (a[i] + b[i]) / 2;
  }
  auto sum = sketch_of(a, 1);
  const auto other = sketch_of(b, 1);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + other[i]) / 2;
  EXPECT_LT(relative_distance(sketch_of(mean, 1), sum), kTolerance);
}

}  // namespace
}  // namespace lockstep::digests
