// Gradient noise: how much of a worker's gradient is sampling noise, which is what healthy workers differ by.
//
// B/b = noise/signal = 1/c - 1. Both terms are unbiased estimates, their ratio is not, and the signal of one step may
// even be negative; so each term is smoothed over steps and only then divided.
#pragma once

#include <cstddef>

#include "lockstep/stats.h"

namespace lockstep::stats {

// Of n workers with mean |g_i|^2 = s2 and |mean g|^2 = m2. noise + signal = s2.
struct NoiseTerms {
  double noise = 0;   // n/(n-1) (s2 - m2): the variance of one worker's gradient, summed over elements
  double signal = 0;  // (n m2 - s2)/(n-1): |expected gradient|^2

  Metric ratio() const;  // no verdict unless signal > 0
};
NoiseTerms noise_terms(double s2, double m2, std::size_t n);  // n >= 2

// Exponential means of the two terms with a common weight, so that the start-up bias cancels in their ratio.
class NoiseScale {
 public:
  // `keep` is the weight of the past, 0 to below 1.
  void add(const NoiseTerms& terms, double keep);
  Metric ratio() const;  // no verdict before the first add, or while the smoothed signal is not positive

 private:
  NoiseTerms mean_;
  double weight_ = 0;
};

}  // namespace lockstep::stats
