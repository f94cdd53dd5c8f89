// Directions: mean pairwise cosine with its error bar, leave-one-out cosines, the matrix, and the pooled cosine.
//
// Estimates normalise each sketch by its own length, not by the exact norm. For a pair that has error (1 - c^2)/sqrt(k)
// against sqrt(1 + c^2)/sqrt(k); it keeps every cosine inside its mathematical range without clamping, and it gives
// exactly 1 for identical workers. docs/metrics.md derives the error bar.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/stats.h"
#include "stats/sketch_moments.h"

namespace lockstep::stats {

struct MeanCosine {
  Metric value;
  Metric error;  // one standard deviation
};

// (|sum of u_i|^2 - n)/(n(n-1)) over the n ranks that have a direction. No verdict below two.
MeanCosine mean_cosine(const SketchMoments& moments);

// The same from the exact |sum of g_i/n_i|^2 over `directions` non-zero gradients; its error is zero.
MeanCosine mean_cosine(double direction_sum_squares, std::size_t directions);

// cos(g_i, sum of the others): the rank's own direction against the rest of the group. No verdict for a zero gradient,
// nor where the others cancel to less than double precision can tell from zero.
Metric leave_one_out(const SketchMoments& moments, const SketchRow& row);

// c = (n M2/S2 - 1)/(n - 1) with M2/S2 the ratio of |mean g|^2 to mean |g_i|^2, between 0 and 1. No verdict below two.
Metric pooled_cosine(double ratio, std::size_t n);

// M2/S2 from the sketches; no verdict when all are zero.
Metric pooled_ratio(const SketchMoments& moments);

// workers x workers, row-major. NaN where either rank has no direction; empty when no pair has one.
std::vector<float> cosine_matrix(const SketchMoments& moments, std::size_t workers);

}  // namespace lockstep::stats
