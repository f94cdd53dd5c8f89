#include "stats/sketch_moments.h"

#include <algorithm>
#include <cmath>

#include "stats/row_kernels.h"

namespace lockstep::stats {
namespace {

// Below this ratio the short formula |S - s|^2 = |S|^2 - 2 S.s + |s|^2 has lost half of its digits.
constexpr double kCancellation = 1e-6;

// Calls visit(rows, first, count) for each block; a short last block is filled up with rows of zeros.
template <class Visit>
void for_each_block(const SketchMoments& moments, Visit visit) {
  for (std::size_t first = 0; first < moments.rows.size(); first += kRowBlock) {
    const std::size_t count = std::min(kRowBlock, moments.rows.size() - first);
    RowBlock rows;
    rows.fill(moments.zeros.data());
    for (std::size_t r = 0; r < count; ++r) rows[r] = moments.rows[first + r].sketch;
    visit(rows, first, count);
  }
}

// A sketch that is not finite (its bins overflowed float), or that is zero where the exact norm is not (or the other
// way round), says nothing of its gradient.
bool agrees(double sketch_square, double norm) noexcept {
  return std::isfinite(sketch_square) && (sketch_square > 0) == (norm > 0);
}

void first_pass(const StepView& view, SketchMoments& moments) {
  for_each_block(moments, [&](RowBlock block, std::size_t first, std::size_t count) {
    RowValues inverse_norms{};
    for (std::size_t r = 0; r < count; ++r) {
      SketchRow& row = moments.rows[first + r];
      row.square = dot(block[r], block[r], moments.k);
      if (!agrees(row.square, *view.ranks[row.rank].gradient.norm)) {
        row.sketch = nullptr;
        block[r] = moments.zeros.data();
      } else if (row.square > 0) {
        row.inverse_norm = 1 / std::sqrt(row.square);
      }
      inverse_norms[r] = row.inverse_norm;
    }
    add_rows(block, inverse_norms, moments.sum.data(), moments.unit_sum.data(), moments.k);
  });
  std::erase_if(moments.rows, [](const SketchRow& row) { return row.sketch == nullptr; });
  for (const SketchRow& row : moments.rows) {
    moments.squares += row.square;
    moments.directions += row.has_direction();
  }
  for (const double bin : moments.sum) moments.sum_square += bin * bin;
}

void second_pass(SketchMoments& moments) {
  for_each_block(moments, [&](const RowBlock& block, std::size_t first, std::size_t count) {
    RowValues with_sum, with_unit_sum, pulls{};
    products(block, moments.sum.data(), moments.unit_sum.data(), moments.k, with_sum, with_unit_sum);
    for (std::size_t r = 0; r < count; ++r) {
      SketchRow& row = moments.rows[first + r];
      row.unit_product = with_unit_sum[r] * row.inverse_norm;
      pulls[r] = row.unit_product * row.unit_product * row.inverse_norm;
      row.others_product = with_sum[r] - row.square;
      row.others_square = moments.sum_square - 2 * with_sum[r] + row.square;
      if (row.others_square < kCancellation * (moments.sum_square + row.square)) {
        const Remainder exact = remainder(row.sketch, moments.sum.data(), moments.k);
        row.others_square = exact.square;
        row.others_product = exact.product;
      }
    }
    add_rows(block, pulls, moments.squared_pull.data(), moments.k);
  });
}

}  // namespace

SketchMoments sketch_moments(const StepView& view) {
  SketchMoments moments;
  moments.k = view.sketch_dim;
  moments.zeros.assign(moments.k, 0);
  moments.sum.assign(moments.k, 0);
  moments.unit_sum.assign(moments.k, 0);
  moments.squared_pull.assign(moments.k, 0);
  for (std::size_t i = 0; i < view.ranks.size(); ++i) {
    const GradientView& gradient = view.ranks[i].gradient;
    if (gradient.sketch.empty()) continue;
    SketchRow& row = moments.rows.emplace_back();
    row.rank = i;
    row.sketch = gradient.sketch.data();
  }
  first_pass(view, moments);
  second_pass(moments);
  return moments;
}

}  // namespace lockstep::stats
