#include "stats/noise_scale.h"

#include <algorithm>
#include <cmath>

namespace lockstep::stats {
namespace {

// One corrupted step can be 1e20 times as large as its neighbours and would rule the mean for hundreds of steps. A step
// whose s2 exceeds the running one by this factor (norms by 4) is shrunk to it: both terms alike, its ratio stays.
constexpr double kLargestJump = 16;

}  // namespace

Metric NoiseTerms::ratio() const {
  if (!(signal > 0)) return std::nullopt;
  return std::max(noise, 0.0) / signal;
}

NoiseTerms noise_terms(double s2, double m2, std::size_t n) {
  const double count = static_cast<double>(n);
  return {count / (count - 1) * (s2 - m2), (count * m2 - s2) / (count - 1)};
}

void NoiseScale::add(const NoiseTerms& terms, double keep) {
  const double s2 = terms.noise + terms.signal;
  if (!std::isfinite(s2) || !(s2 > 0)) return;
  double share = 1 - keep;
  if (weight_ > 0) {
    const double running = (mean_.noise + mean_.signal) / weight_;
    share *= std::min(1.0, kLargestJump * running / s2);
  }
  mean_.noise = keep * mean_.noise + share * terms.noise;
  mean_.signal = keep * mean_.signal + share * terms.signal;
  weight_ = keep * weight_ + (1 - keep);
}

Metric NoiseScale::ratio() const {
  return mean_.ratio();
}

}  // namespace lockstep::stats
