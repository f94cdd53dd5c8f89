// Plain layers against slow fp64 loops; fused layers against the plain ones, values and gradients.
#include "train/layers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "train/fused_layers.h"
#include "train/linear.h"

namespace lockstep::train {
namespace {

at::Tensor random(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType dtype = at::kFloat) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)).to(dtype);
}

double worst_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(RmsNorm, EqualsTheFormula) {
  const at::Tensor x = random({3, 10}, 1, at::kDouble), weight = random({10}, 2, at::kDouble);
  const at::Tensor y = rms_norm(x, weight, 1e-5);
  for (int row = 0; row < 3; ++row) {
    double squares = 0;
    for (int i = 0; i < 10; ++i) squares += std::pow(x[row][i].item<double>(), 2);
    const double scale = 1 / std::sqrt(squares / 10 + 1e-5);
    for (int i = 0; i < 10; ++i) {
      EXPECT_NEAR(y[row][i].item<double>(), x[row][i].item<double>() * scale * weight[i].item<double>(), 1e-12);
    }
  }
}

TEST(Rope, TurnsEachPairByPositionTimesItsFrequency) {
  const RopeTable table = make_rope_table(5, 8, 100.0, at::kDouble);
  for (int position = 0; position < 5; ++position) {
    for (int pair = 0; pair < 4; ++pair) {
      const double angle = position * std::pow(100.0, -2.0 * pair / 8);
      EXPECT_NEAR(table.cos[position][pair].item<double>(), std::cos(angle), 1e-6);
      EXPECT_NEAR(table.sin[position][pair].item<double>(), std::sin(angle), 1e-6);
    }
  }
}

// Attention of one query, written out from its definition.
std::vector<double> slow_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RopeTable& rope,
                                   const AttentionShape& shape, std::int64_t b, std::int64_t t, std::int64_t h) {
  const std::int64_t dim = shape.head_dim, half = dim / 2, kv = h / shape.group();
  const auto turned = [&](const at::Tensor& x, std::int64_t position, std::int64_t head) {
    std::vector<double> out(static_cast<std::size_t>(dim));
    for (std::int64_t i = 0; i < half; ++i) {
      const double c = rope.cos[position][i].item<double>(), s = rope.sin[position][i].item<double>();
      const at::Tensor row = x[b * shape.positions + position];
      const double first = row[head * dim + i].item<double>(), second = row[head * dim + half + i].item<double>();
      out[static_cast<std::size_t>(i)] = first * c - second * s;
      out[static_cast<std::size_t>(half + i)] = second * c + first * s;
    }
    return out;
  };
  const auto query = turned(q, t, h);
  std::vector<double> weights, out(static_cast<std::size_t>(dim));
  double total = 0;
  for (std::int64_t j = 0; j <= t; ++j) {
    const auto key = turned(k, j, kv);
    double score = 0;
    for (std::size_t i = 0; i < key.size(); ++i) score += query[i] * key[i];
    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(dim))));
    total += weights.back();
  }
  for (std::int64_t j = 0; j <= t; ++j) {
    for (std::int64_t i = 0; i < dim; ++i) {
      out[static_cast<std::size_t>(i)] +=
          weights[static_cast<std::size_t>(j)] / total * v[b * shape.positions + j][kv * dim + i].item<double>();
    }
  }
  return out;
}

TEST(Attention, EqualsItsDefinition) {
  const AttentionShape shape{2, 5, 4, 2, 6};
  const at::Tensor q = random({10, 24}, 3, at::kDouble), k = random({10, 12}, 4, at::kDouble),
                   v = random({10, 12}, 5, at::kDouble);
  const RopeTable rope = make_rope_table(5, 6, 50.0, at::kDouble);
  const at::Tensor got = attention(q, k, v, rope, shape, {});
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 5; ++t) {
      for (std::int64_t h = 0; h < 4; ++h) {
        const auto expected = slow_attention(q, k, v, rope, shape, b, t, h);
        for (std::int64_t i = 0; i < 6; ++i) {
          ASSERT_NEAR(got[b * 5 + t][h * 6 + i].item<double>(), expected[static_cast<std::size_t>(i)], 1e-12);
        }
      }
    }
  }
}

using Layer = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Values and input gradients of a fused layer in fp32 against the plain one in fp64.
void expect_twins(const Layer& fast, const Layer& plain, const std::vector<at::Tensor>& inputs, double tolerance) {
  std::vector<at::Tensor> fast_inputs, plain_inputs;
  for (const at::Tensor& input : inputs) {
    fast_inputs.push_back(input.clone().set_requires_grad(true));
    plain_inputs.push_back(input.to(at::kDouble).set_requires_grad(true));
  }
  const at::Tensor got = fast(fast_inputs), expected = plain(plain_inputs);
  const at::Tensor gradient = random(expected.sizes(), 99);
  EXPECT_LT(worst_difference(got, expected), tolerance);
  got.backward(gradient);
  expected.backward(gradient.to(at::kDouble));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LT(worst_difference(fast_inputs[i].grad(), plain_inputs[i].grad()), tolerance) << "gradient of input " << i;
  }
}

TEST(FusedRmsNorm, AgreesWithThePlainOneAtEveryWidth) {
  for (const std::int64_t width : {1, 3, 16, 17, 31, 128, 200}) {
    for (const std::int64_t rows : {1, 5, 300}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_twins([](const auto& in) { return fused::rms_norm(in[0], in[1], 1e-5); },
                   [](const auto& in) { return rms_norm(in[0], in[1], 1e-5); },
                   {random({rows, width}, 7), random({width}, 8)}, 2e-5 * std::sqrt(static_cast<double>(rows)));
    }
  }
}

TEST(FusedSwiGlu, AgreesWithThePlainOne) {
  for (const std::int64_t count : {1, 7, 16, 33, 70000}) {
    expect_twins([](const auto& in) { return fused::swiglu(in[0], in[1]); },
                 [](const auto& in) { return swiglu(in[0], in[1]); },
                 {3 * random({count, 1}, 9), random({count, 1}, 10)}, 1e-5);
  }
}

TEST(FusedSwiGlu, SaturatesWithoutNan) {
  const at::Tensor gate =
      at::tensor({-1e4f, -100.0f, -88.0f, 0.0f, 88.0f, 100.0f, 1e4f}).view({7, 1}).set_requires_grad(true);
  const at::Tensor up = at::ones({7, 1});
  const at::Tensor y = fused::swiglu(gate, up);
  EXPECT_LT(worst_difference(y, swiglu(gate, up)), 1e-6);
  y.backward(at::ones_like(y));
  EXPECT_TRUE(gate.grad().isfinite().all().item<bool>());
}

TEST(FusedAttention, AgreesWithThePlainOneForEveryShape) {
  const AttentionShape shapes[] = {
      {1, 1, 1, 1, 2}, {2, 5, 4, 2, 6}, {3, 17, 4, 4, 8}, {1, 33, 6, 2, 16}, {2, 64, 8, 1, 10}};
  for (const AttentionShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.batch << " " << shape.positions << " " << shape.heads << " "
                                    << shape.kv_heads);
    const RopeTable table = make_rope_table(70, shape.head_dim, 1e4, at::kFloat);
    const RopeTable wide{table.cos.to(at::kDouble), table.sin.to(at::kDouble)};
    const std::int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
    at::Tensor mask;
    for (const bool drops : {false, true}) {
      if (drops) {
        mask = at::empty({shape.batch * shape.kv_heads, shape.group() * shape.positions, shape.positions})
                   .bernoulli_(0.7, at::detail::createCPUGenerator(5))
                   .div_(0.7);
      }
      expect_twins(
          [&](const auto& in) { return fused::attention(in[0], in[1], in[2], table, shape, {mask}); },
          [&](const auto& in) { return attention(in[0], in[1], in[2], wide, shape, {mask}); },
          {2 * random({shape.rows(), q}, 11), 2 * random({shape.rows(), kv}, 12), random({shape.rows(), kv}, 13)},
          1e-4);
    }
  }
}

TEST(FusedAttention, NanReachesTheOutputAndNotEarlierPositions) {
  const AttentionShape shape{1, 6, 1, 1, 4};
  at::Tensor q = random({6, 4}, 1), k = random({6, 4}, 2), v = random({6, 4}, 3);
  k[3][0] = NAN;
  const at::Tensor y = fused::attention(q, k, v, make_rope_table(6, 4, 1e4, at::kFloat), shape, {});
  EXPECT_TRUE(y.narrow(0, 0, 3).isfinite().all().item<bool>());
  EXPECT_TRUE(y.narrow(0, 3, 3).isnan().all().item<bool>());
}

// Both ways to multiply in bf16: the processor's, and fp32 products of rounded values. One rounding of the result, half
// a unit in the last of its 8 bits, is all that may separate them from the product of the rounded factors. (Below 4096
// multiplications libtorch does not bother oneDNN and sums in bf16; no real layer is that small.)
TEST(Linear, Bf16RoundsInputsWeightsAndResult) {
  const auto rounded = [](const at::Tensor& t) { return t.detach().to(at::kBFloat16).to(at::kDouble); };
  const auto expect_one_rounding = [](const at::Tensor& got, const at::Tensor& expected) {
    const at::Tensor excess = (got.to(at::kDouble) - expected).abs() - expected.abs() / 256;
    EXPECT_LT(excess.max().item<double>(), 1e-5);
  };
  for (const bool fast : {LinearMath::has_fast_bf16(), false}) {
    const LinearMath math(true, fast);
    const at::Tensor x = random({40, 32}, 1), w = random({24, 32}, 2).set_requires_grad(true), b = random({24}, 3);
    const at::Tensor got = math.apply(math.input(x), w, b);
    EXPECT_EQ(got.scalar_type(), at::kBFloat16);
    expect_one_rounding(got, at::linear(rounded(x), rounded(w), rounded(b)));
    const at::Tensor gradient = random({40, 24}, 4).to(at::kBFloat16);
    got.backward(gradient);
    EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
    expect_one_rounding(w.grad(), at::matmul(rounded(gradient).t(), rounded(x)));
  }
}

}  // namespace
}  // namespace lockstep::train
