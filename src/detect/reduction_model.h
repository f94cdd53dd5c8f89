// What a rank holds after the reduction, in terms of what the ranks had before it, judged on folded sketches.
//
// Sketches are linear, so every statement about sums, means and multiples of gradients can be checked on them. This
// file answers questions; reduction.cc draws the conclusion.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/stats.h"

namespace lockstep::detect {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b);

// Best multiple of `v` for `r`, and what is left, relative to |factor v|.
struct Multiple {
  double factor = 0;
  double residual = 1;
};
Multiple multiple_of(const Vector& r, const Vector& v);

// Largest gap that rounding can leave in a reduction in bf16 over n ranks.
double rounding_bound(std::size_t n);

struct ReductionModel {
  std::vector<std::uint32_t> ranks;
  std::vector<Vector> local;    // before the reduction, folded to the reduced dimension
  std::vector<Vector> reduced;  // after it
  Vector mean;                  // of local
  double scale = 0;             // what residuals are relative to: |mean|, but not below what cancellation leaves of it

  // Residual of a rank's reduced gradient from its best multiple of the mean, relative to `scale`.
  Multiple against_mean(std::size_t i) const;
  // From its own gradient before the reduction.
  Multiple against_local(std::size_t i) const;
  // True where the rank's own gradient is so near the mean that the two cannot be told apart.
  bool local_is_mean(std::size_t i) const;
  // True where some positive multiples of all ranks' reduced gradients add up to the mean: what each rank lacks the
  // others kept for themselves, as when parameters or micro-batches stay unreduced.
  bool parts_add_up() const;
  // Weight of each rank's gradient in this reduced vector, by least squares; empty when they do not explain it.
  std::vector<double> weights(const Vector& reduced) const;
};

// Empty unless every rank of the group is there with sound, sketched gradients of equal element count.
std::optional<ReductionModel> model_of(const Step& step);

}  // namespace lockstep::detect
