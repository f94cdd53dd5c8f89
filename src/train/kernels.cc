#include "train/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/kernels.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::train::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using V = hn::Vec<F32>;

// The last, partial vector of a range goes through a stack buffer: a masked load may touch memory behind the range.
V load_tail(F32 d, const float* p, std::size_t count, float fill) {
  HWY_ALIGN float buffer[hn::MaxLanes(F32())];
  std::fill_n(buffer, hn::Lanes(d), fill);
  std::memcpy(buffer, p, count * sizeof(float));
  return hn::Load(d, buffer);
}

void store_tail(F32 d, V v, float* p, std::size_t count) {
  HWY_ALIGN float buffer[hn::MaxLanes(F32())];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, count * sizeof(float));
}

// Calls body(load, store, offset) for each vector of a range; load and store know whether it is the partial one.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, Body&& body) {
  const F32 d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body([&](const float* p, float = 0) HWY_ATTR { return hn::LoadU(d, p + i); },
         [&](V v, float* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (i < count) {
    body([&](const float* p, float fill = 0) HWY_ATTR { return load_tail(d, p + i, count - i, fill); },
         [&](V v, float* p) HWY_ATTR { store_tail(d, v, p + i, count - i); });
  }
}

float sum(V v) {
  return hn::GetLane(hn::SumOfLanes(F32(), v));
}

// 1 / (1 + exp(-x)); both ends saturate without overflow trouble.
V sigmoid(F32 d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
}

void rms_norm_forward_impl(const float* x, const float* weight, float eps, std::size_t rows, std::size_t width,
                           float* y, float* inverse_rms) {
  const F32 d;
  for (std::size_t row = 0; row < rows; ++row, x += width, y += width) {
    V squares = hn::Zero(d);
    for_each_vector(width, [&](auto load, auto) HWY_ATTR {
      const V v = load(x);
      squares = hn::MulAdd(v, v, squares);
    });
    const float inverse = 1.0f / std::sqrt(sum(squares) / static_cast<float>(width) + eps);
    inverse_rms[row] = inverse;
    const V scale = hn::Set(d, inverse);
    for_each_vector(width,
                    [&](auto load, auto store) HWY_ATTR { store(hn::Mul(hn::Mul(load(x), scale), load(weight)), y); });
  }
}

// With u = dy * weight: dx = r u - x r^3 mean(u x), d(weight) = sum over rows of dy x r.
void rms_norm_backward_impl(const float* dy, const float* x, const float* weight, const float* inverse_rms,
                            std::size_t rows, std::size_t width, float* dx, float* weight_grad) {
  const F32 d;
  for (std::size_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    V dots = hn::Zero(d);
    for_each_vector(
        width, [&](auto load, auto) HWY_ATTR { dots = hn::MulAdd(hn::Mul(load(dy), load(weight)), load(x), dots); });
    const float inverse = inverse_rms[row];
    const V scale = hn::Set(d, inverse);
    const V pull = hn::Set(d, inverse * inverse * inverse * (sum(dots) / static_cast<float>(width)));
    for_each_vector(width, [&](auto load, auto store) HWY_ATTR {
      const V gradient = load(dy), input = load(x);
      const V normalised = hn::Mul(input, scale);
      store(hn::NegMulAdd(input, pull, hn::Mul(hn::Mul(gradient, load(weight)), scale)), dx);
      store(hn::MulAdd(gradient, normalised, load(weight_grad)), weight_grad);
    });
  }
}

void swiglu_forward_impl(const float* gate, const float* up, std::size_t count, float* y) {
  const F32 d;
  for_each_vector(count, [&](auto load, auto store) HWY_ATTR {
    const V g = load(gate);
    store(hn::Mul(hn::Mul(g, sigmoid(d, g)), load(up)), y);
  });
}

// silu' = s (1 + g (1 - s)) with s = sigmoid(g)
void swiglu_backward_impl(const float* dy, const float* gate, const float* up, std::size_t count, float* dgate,
                          float* dup) {
  const F32 d;
  const V one = hn::Set(d, 1.0f);
  for_each_vector(count, [&](auto load, auto store) HWY_ATTR {
    const V g = load(gate), gradient = load(dy);
    const V s = sigmoid(d, g);
    const V slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one));
    store(hn::Mul(gradient, hn::Mul(g, s)), dup);
    store(hn::Mul(hn::Mul(gradient, load(up)), slope), dgate);
  });
}

void causal_softmax_forward_impl(float* scores, std::size_t first_row, std::size_t rows, std::size_t positions,
                                 float scale) {
  const F32 d;
  constexpr float kLowest = -INFINITY;
  for (std::size_t row = first_row; row < first_row + rows; ++row, scores += positions) {
    const std::size_t seen = row % positions + 1;
    V highest = hn::Set(d, kLowest);
    for_each_vector(seen, [&](auto load, auto) HWY_ATTR { highest = hn::Max(highest, load(scores, kLowest)); });
    const V shift = hn::Mul(hn::MaxOfLanes(d, highest), hn::Set(d, scale));
    V total = hn::Zero(d);
    for_each_vector(seen, [&](auto load, auto store) HWY_ATTR {
      const V x = hn::MulSub(load(scores, kLowest), hn::Set(d, scale), shift);
      const V e = hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));  // Exp alone would turn NaN into zero
      total = hn::Add(total, e);
      store(e, scores);
    });
    const V inverse = hn::Set(d, 1.0f / sum(total));
    for_each_vector(seen, [&](auto load, auto store) HWY_ATTR { store(hn::Mul(load(scores), inverse), scores); });
    std::fill(scores + seen, scores + positions, 0.0f);
  }
}

void causal_softmax_backward_impl(float* gradient, const float* probabilities, std::size_t first_row, std::size_t rows,
                                  std::size_t positions, float scale) {
  const F32 d;
  for (std::size_t row = first_row; row < first_row + rows; ++row, gradient += positions, probabilities += positions) {
    const std::size_t seen = row % positions + 1;
    V dots = hn::Zero(d);
    for_each_vector(seen,
                    [&](auto load, auto) HWY_ATTR { dots = hn::MulAdd(load(gradient), load(probabilities), dots); });
    const V mean = hn::Set(d, sum(dots)), factor = hn::Set(d, scale);
    for_each_vector(seen, [&](auto load, auto store) HWY_ATTR {
      store(hn::Mul(hn::Mul(load(probabilities), hn::Sub(load(gradient), mean)), factor), gradient);
    });
    std::fill(gradient + seen, gradient + positions, 0.0f);
  }
}

void rotate_head_impl(const float* x, const float* cos, const float* sin, std::size_t dim, float sign, float* out) {
  const F32 d;
  const std::size_t half = dim / 2;
  const V turn = hn::Set(d, sign);
  for_each_vector(half, [&](auto load, auto store) HWY_ATTR {
    const V a = load(x), b = load(x + half), c = load(cos), s = hn::Mul(load(sin), turn);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), out);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), out + half);
  });
}

// The order of operations of torch::optim::AdamW.
void adamw_step_impl(const AdamWFactors& f, std::size_t count, const float* gradient, float* parameter, float* mean,
                     float* mean_square) {
  const F32 d;
  const V clip = hn::Set(d, f.gradient_scale), decay = hn::Set(d, f.decay), beta1 = hn::Set(d, f.beta1),
          beta2 = hn::Set(d, f.beta2);
  const V rest1 = hn::Set(d, f.rest1), rest2 = hn::Set(d, f.rest2);
  const V step = hn::Set(d, -f.step_size), correction = hn::Set(d, f.correction2), eps = hn::Set(d, f.eps);
  for_each_vector(count, [&](auto load, auto store) HWY_ATTR {
    const V g = hn::Mul(load(gradient), clip);
    const V m = hn::MulAdd(g, rest1, hn::Mul(load(mean), beta1));
    const V v = hn::MulAdd(hn::Mul(rest2, g), g, hn::Mul(load(mean_square), beta2));
    const V denominator = hn::Add(hn::Div(hn::Sqrt(v), correction), eps);
    store(m, mean);
    store(v, mean_square);
    store(hn::Add(hn::Mul(load(parameter), decay), hn::Div(hn::Mul(step, m), denominator)), parameter);
  });
}

double sum_of_squares_impl(const float* x, std::size_t count) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> half;
  const std::size_t lanes = hn::Lanes(d64);
  auto total0 = hn::Zero(d64), total1 = hn::Zero(d64);
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::PromoteTo(d64, hn::LoadU(half, x + i)), b = hn::PromoteTo(d64, hn::LoadU(half, x + i + lanes));
    total0 = hn::MulAdd(a, a, total0);
    total1 = hn::MulAdd(b, b, total1);
  }
  double total = hn::GetLane(hn::SumOfLanes(d64, hn::Add(total0, total1)));
  for (; i < count; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace lockstep::train::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::train::kernels {

HWY_EXPORT(rms_norm_forward_impl);
HWY_EXPORT(rms_norm_backward_impl);
HWY_EXPORT(swiglu_forward_impl);
HWY_EXPORT(swiglu_backward_impl);
HWY_EXPORT(causal_softmax_forward_impl);
HWY_EXPORT(causal_softmax_backward_impl);
HWY_EXPORT(rotate_head_impl);
HWY_EXPORT(adamw_step_impl);
HWY_EXPORT(sum_of_squares_impl);

void rms_norm_forward(const float* x, const float* weight, float eps, std::size_t rows, std::size_t width, float* y,
                      float* inverse_rms) noexcept {
  HWY_DYNAMIC_DISPATCH(rms_norm_forward_impl)(x, weight, eps, rows, width, y, inverse_rms);
}
void rms_norm_backward(const float* dy, const float* x, const float* weight, const float* inverse_rms, std::size_t rows,
                       std::size_t width, float* dx, float* weight_grad) noexcept {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_impl)(dy, x, weight, inverse_rms, rows, width, dx, weight_grad);
}
void swiglu_forward(const float* gate, const float* up, std::size_t count, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(swiglu_forward_impl)(gate, up, count, y);
}
void swiglu_backward(const float* dy, const float* gate, const float* up, std::size_t count, float* dgate,
                     float* dup) noexcept {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_impl)(dy, gate, up, count, dgate, dup);
}
void causal_softmax_forward(float* scores, std::size_t first_row, std::size_t rows, std::size_t positions,
                            float scale) noexcept {
  HWY_DYNAMIC_DISPATCH(causal_softmax_forward_impl)(scores, first_row, rows, positions, scale);
}
void causal_softmax_backward(float* gradient, const float* probabilities, std::size_t first_row, std::size_t rows,
                             std::size_t positions, float scale) noexcept {
  HWY_DYNAMIC_DISPATCH(causal_softmax_backward_impl)(gradient, probabilities, first_row, rows, positions, scale);
}
void rotate_head(const float* x, const float* cos, const float* sin, std::size_t dim, float sign, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(rotate_head_impl)(x, cos, sin, dim, sign, out);
}
void adamw_step(const AdamWFactors& factors, std::size_t count, const float* gradient, float* parameter, float* mean,
                float* mean_square) noexcept {
  HWY_DYNAMIC_DISPATCH(adamw_step_impl)(factors, count, gradient, parameter, mean, mean_square);
}
double sum_of_squares(const float* x, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_impl)(x, count);
}

}  // namespace lockstep::train::kernels
#endif
