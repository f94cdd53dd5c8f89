#include "train/student_t.h"

#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

// The continued fraction of DLMF 8.17.22, evaluated forwards (modified Lentz). Converges in a few dozen terms for
// x < (a + 1)/(a + b + 2).
double beta_fraction(double a, double b, double x) noexcept {
  constexpr double kTiny = 1e-300;
  constexpr int kMaxTerms = 10000;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double numerator = 1;
  double denominator = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = denominator;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    denominator = 1 / away_from_zero(1 + even * denominator);
    numerator = away_from_zero(1 + even / numerator);
    fraction *= denominator * numerator;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    denominator = 1 / away_from_zero(1 + odd * denominator);
    numerator = away_from_zero(1 + odd / numerator);
    const double change = denominator * numerator;
    fraction *= change;
    if (std::abs(change - 1) < 1e-15) break;
  }
  return fraction;
}

}  // namespace

double incomplete_beta(double a, double b, double x, double y) noexcept {
  if (!(x > 0)) return x == 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  if (!(y > 0)) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, y, x);
  const double log_front = a * std::log(x) + b * std::log(y) + std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b);
  return std::exp(log_front) / a * beta_fraction(a, b, x);
}

double student_t_two_sided(double t, double dof) noexcept {
  if (std::isnan(t) || !(dof > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(t)) return 0;
  // dof/(dof + t^2), written so that a large t does not overflow.
  const double ratio = t / std::sqrt(dof);
  const double x = 1 / (1 + ratio * ratio);
  const double y = std::abs(ratio) > 1 ? 1 / (1 + 1 / (ratio * ratio)) : ratio * ratio * x;
  return incomplete_beta(dof / 2, 0.5, x, y);
}

double student_t_critical(double confidence, double dof) noexcept {
  if (!(confidence >= 0) || !(confidence < 1) || !(dof > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (confidence == 0) return 0;
  const double tail = 1 - confidence;
  double low = 0;
  double high = 1;
  while (student_t_two_sided(high, dof) > tail && high < 1e150) {
    low = high;
    high *= 2;
  }
  // Halving the bracket to the last bit: slow and certain, and called a few dozen times per study.
  for (double middle = low + (high - low) / 2; middle > low && middle < high; middle = low + (high - low) / 2) {
    (student_t_two_sided(middle, dof) > tail ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

}  // namespace lockstep::train
