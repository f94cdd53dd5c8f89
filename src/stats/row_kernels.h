// The loops over sketch bins that the metrics are made of. Bins are float, every product and sum is double.
//
// Highway picks the widest vectors that the machine has, so on one machine a result is always the same bits; between
// instruction sets it differs by rounding (about 1e-15), because the lanes of a sum are added in another order.
#pragma once

#include <array>
#include <cstddef>

namespace lockstep::stats {

// Rows that one sweep handles at a time, so that the wide accumulators are loaded and stored once per block.
inline constexpr std::size_t kRowBlock = 4;
using RowBlock = std::array<const float*, kRowBlock>;
using RowValues = std::array<double, kRowBlock>;

double dot(const float* a, const float* b, std::size_t k) noexcept;

// sum += row and weighted += weight * row, for each row of the block. The accumulators do not overlap the rows.
void add_rows(const RowBlock& rows, const RowValues& weights, double* sum, double* weighted, std::size_t k) noexcept;

// with_a[r] = rows[r] . a and with_b[r] = rows[r] . b.
void products(const RowBlock& rows, const double* a, const double* b, std::size_t k, RowValues& with_a,
              RowValues& with_b) noexcept;

// The same rows again with their products known: weighted += weight * row.
void add_rows(const RowBlock& rows, const RowValues& weights, double* weighted, std::size_t k) noexcept;

// |sum - row|^2 and row . (sum - row) from the differences themselves: exact where one row is nearly the whole sum.
struct Remainder {
  double square = 0;
  double product = 0;
};
Remainder remainder(const float* row, const double* sum, std::size_t k) noexcept;

}  // namespace lockstep::stats
