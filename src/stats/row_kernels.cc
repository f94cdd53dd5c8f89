#include "stats/row_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stats/row_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::stats::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<double>;
using Narrow = hn::Rebind<float, Wide>;
using Vector = hn::Vec<Wide>;

HWY_INLINE Vector widen(const float* at) {
  return hn::PromoteTo(Wide(), hn::LoadU(Narrow(), at));
}
HWY_INLINE double total(Vector v) {
  return hn::GetLane(hn::SumOfLanes(Wide(), v));
}

// Vector loops below leave k % lanes bins to a scalar tail: sketches are powers of two from 256 on, so in practice
// none.

double dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::size_t k) {
  const std::size_t lanes = hn::Lanes(Wide());
  Vector even = hn::Zero(Wide());
  Vector odd = hn::Zero(Wide());
  std::size_t i = 0;
  for (; i + 2 * lanes <= k; i += 2 * lanes) {
    even = hn::MulAdd(widen(a + i), widen(b + i), even);
    odd = hn::MulAdd(widen(a + i + lanes), widen(b + i + lanes), odd);
  }
  double sum = total(hn::Add(even, odd));
  for (; i < k; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void add_rows(const RowBlock& rows, const RowValues& weights, double* HWY_RESTRICT sum, double* HWY_RESTRICT weighted,
              std::size_t k) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
  const Vector w0 = hn::Set(d, weights[0]), w1 = hn::Set(d, weights[1]);
  const Vector w2 = hn::Set(d, weights[2]), w3 = hn::Set(d, weights[3]);
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const Vector x0 = widen(r0 + i), x1 = widen(r1 + i), x2 = widen(r2 + i), x3 = widen(r3 + i);
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::Add(hn::Add(x0, x1), hn::Add(x2, x3))), d, sum + i);
    const Vector first = hn::MulAdd(w1, x1, hn::MulAdd(w0, x0, hn::LoadU(d, weighted + i)));
    hn::StoreU(hn::MulAdd(w3, x3, hn::MulAdd(w2, x2, first)), d, weighted + i);
  }
  for (; i < k; ++i) {
    for (std::size_t r = 0; r < kRowBlock; ++r) {
      sum[i] += rows[r][i];
      weighted[i] += weights[r] * rows[r][i];
    }
  }
}

void add_weighted_rows(const RowBlock& rows, const RowValues& weights, double* HWY_RESTRICT weighted, std::size_t k) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
  const Vector w0 = hn::Set(d, weights[0]), w1 = hn::Set(d, weights[1]);
  const Vector w2 = hn::Set(d, weights[2]), w3 = hn::Set(d, weights[3]);
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const Vector first = hn::MulAdd(w1, widen(r1 + i), hn::MulAdd(w0, widen(r0 + i), hn::LoadU(d, weighted + i)));
    hn::StoreU(hn::MulAdd(w3, widen(r3 + i), hn::MulAdd(w2, widen(r2 + i), first)), d, weighted + i);
  }
  for (; i < k; ++i) {
    for (std::size_t r = 0; r < kRowBlock; ++r) weighted[i] += weights[r] * rows[r][i];
  }
}

void products(const RowBlock& rows, const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, std::size_t k,
              RowValues& with_a, RowValues& with_b) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  const float *r0 = rows[0], *r1 = rows[1], *r2 = rows[2], *r3 = rows[3];
  Vector a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const Vector va = hn::LoadU(d, a + i), vb = hn::LoadU(d, b + i);
    const Vector x0 = widen(r0 + i), x1 = widen(r1 + i), x2 = widen(r2 + i), x3 = widen(r3 + i);
    a0 = hn::MulAdd(x0, va, a0);
    a1 = hn::MulAdd(x1, va, a1);
    a2 = hn::MulAdd(x2, va, a2);
    a3 = hn::MulAdd(x3, va, a3);
    b0 = hn::MulAdd(x0, vb, b0);
    b1 = hn::MulAdd(x1, vb, b1);
    b2 = hn::MulAdd(x2, vb, b2);
    b3 = hn::MulAdd(x3, vb, b3);
  }
  with_a = {total(a0), total(a1), total(a2), total(a3)};
  with_b = {total(b0), total(b1), total(b2), total(b3)};
  for (; i < k; ++i) {
    for (std::size_t r = 0; r < kRowBlock; ++r) {
      with_a[r] += rows[r][i] * a[i];
      with_b[r] += rows[r][i] * b[i];
    }
  }
}

Remainder remainder(const float* HWY_RESTRICT row, const double* HWY_RESTRICT sum, std::size_t k) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  Vector square = hn::Zero(d), product = square;
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    const Vector x = widen(row + i);
    const Vector rest = hn::Sub(hn::LoadU(d, sum + i), x);
    square = hn::MulAdd(rest, rest, square);
    product = hn::MulAdd(x, rest, product);
  }
  Remainder result{total(square), total(product)};
  for (; i < k; ++i) {
    const double rest = sum[i] - row[i];
    result.square += rest * rest;
    result.product += row[i] * rest;
  }
  return result;
}

}  // namespace lockstep::stats::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::stats {

HWY_EXPORT(dot);
HWY_EXPORT(add_rows);
HWY_EXPORT(add_weighted_rows);
HWY_EXPORT(products);
HWY_EXPORT(remainder);

double dot(const float* a, const float* b, std::size_t k) noexcept {
  return HWY_DYNAMIC_DISPATCH(dot)(a, b, k);
}

void add_rows(const RowBlock& rows, const RowValues& weights, double* sum, double* weighted, std::size_t k) noexcept {
  HWY_DYNAMIC_DISPATCH(add_rows)(rows, weights, sum, weighted, k);
}

void add_rows(const RowBlock& rows, const RowValues& weights, double* weighted, std::size_t k) noexcept {
  HWY_DYNAMIC_DISPATCH(add_weighted_rows)(rows, weights, weighted, k);
}

void products(const RowBlock& rows, const double* a, const double* b, std::size_t k, RowValues& with_a,
              RowValues& with_b) noexcept {
  HWY_DYNAMIC_DISPATCH(products)(rows, a, b, k, with_a, with_b);
}

Remainder remainder(const float* row, const double* sum, std::size_t k) noexcept {
  return HWY_DYNAMIC_DISPATCH(remainder)(row, sum, k);
}

}  // namespace lockstep::stats
#endif
