// Everything that the direction metrics need of N sketches, in two reads of them and O(N + k) memory.
//
// Pass one: |s_i|^2, the sum of the sketches and the sum of their unit vectors. Pass two, with the sums known: each
// rank's products with them. No metric is formed here; cosine.cc and reduction_check.cc do that.
#pragma once

#include <cstddef>
#include <vector>

#include "stats/step_view.h"

namespace lockstep::stats {

// One rank's sketch s_i. `rank` indexes StepView::ranks.
struct SketchRow {
  std::size_t rank = 0;
  const float* sketch = nullptr;
  double square = 0;          // |s_i|^2
  double inverse_norm = 0;    // 1/|s_i|, or 0 where the gradient is zero and has no direction
  double unit_product = 0;    // u_i . sum of u_j, with u_i = s_i/|s_i|: the row sum of the cosine matrix
  double others_square = 0;   // |sum of the other s_j|^2
  double others_product = 0;  // s_i . sum of the other s_j

  bool has_direction() const noexcept { return inverse_norm > 0; }
};

struct SketchMoments {
  std::size_t k = 0;
  std::vector<SketchRow> rows;       // ranks with a usable sketch, zero gradients included
  std::size_t directions = 0;        // rows whose gradient is not zero
  std::vector<float> zeros;          // a sketch of nothing, to fill up blocks of rows
  std::vector<double> sum;           // of s_i; k bins
  std::vector<double> unit_sum;      // of u_i
  std::vector<double> squared_pull;  // sum of unit_product^2 u_i: the first-order error of the mean cosine needs it
  double sum_square = 0;             // |sum|^2
  double squares = 0;                // sum of |s_i|^2
};

SketchMoments sketch_moments(const StepView& view);

}  // namespace lockstep::stats
