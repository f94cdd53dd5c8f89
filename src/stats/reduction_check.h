// The linear check of the all-reduce: sketch(G) must be a common multiple of the mean of the ranks' sketches.
//
// The factor lambda takes up what is done to every rank alike (clipping, unscaling, a sum instead of a mean). What is
// left is rounding, or a reduction that is wrong, even where every rank holds the same wrong bits. This file measures;
// which gap is too large is for the detectors to say.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/stats.h"
#include "stats/sketch_moments.h"

namespace lockstep::stats {

struct ReductionCheck {
  Metric scale;              // lambda: the median of the ranks' own factors
  Metric gap;                // the largest of the ranks'
  std::vector<Metric> gaps;  // per rank of the view
};

// Bins with equal (bin mod k) added up: the sketch of dimension k of the same elements. k divides sketch.size().
std::vector<double> fold(std::span<const double> sketch, std::size_t k);

// No verdict unless every rank of the group is here with a sound, sketched gradient: a mean over some of the ranks is
// not what the reduction computed.
ReductionCheck check_reduction(const StepView& view, const SketchMoments& moments);

// |mean g_i|^2 out of a rank's |G|^2, for the exact pooled cosine.
struct ReducedSquare {
  Metric norm;         // |G| of the lowest rank that holds a sound one, as it is
  Metric mean_square;  // |G|^2 / lambda^2 of the lowest rank whose G is the mean; none where no rank's is known to be
};

// Where the step has no check (no sketches), G is taken to be the mean only if `trust_scale`.
ReducedSquare reduced_square(const StepView& view, const ReductionCheck& check, bool trust_scale);

// True where the check shows a common factor other than one: |G| of a step without sketches then proves nothing.
bool scale_is_off(const ReductionCheck& check);

}  // namespace lockstep::stats
