// Mean, spread and range of the workers' losses and gradient norms: the scalar metrics of a step.
#pragma once

#include <cstddef>

#include "lockstep/stats.h"
#include "stats/step_view.h"

namespace lockstep::stats {

// Welford's recurrence: one pass, no cancellation. Values are added in rank order, so a result never depends on the
// order in which records arrived.
class Dispersion {
 public:
  void add(double value) noexcept;
  std::size_t count() const noexcept { return count_; }
  Metric mean() const;   // from one value on
  Metric std() const;    // population form; from two values on: one worker has no dispersion, not a dispersion of zero
  Metric range() const;  // likewise

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared deviations from the mean
  double min_ = 0;
  double max_ = 0;
};

// Fills loss_*, token_loss, norm_* and the ranks' loss and norm. out.ranks has one entry per rank of the view.
void fill_losses(const StepView& view, StepStats& out);
void fill_norms(const StepView& view, StepStats& out);

}  // namespace lockstep::stats
