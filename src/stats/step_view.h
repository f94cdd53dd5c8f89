// Which ranks take part in which metric: the one place where that is decided.
//
// A step's records in rank order, each with what may be used of it. Nothing is computed here beyond a norm; nothing
// is copied: a view points into the Step it was made from and must not outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/stats.h"

namespace lockstep::stats {

// What may be used of one gradient. docs/metrics.md, "Who takes part", gives the reasons.
struct GradientView {
  Metric norm;         // of the finite elements; none when there are none, or nothing was observed
  bool sound = false;  // observed, with a norm, and every element finite: it is the vector that it claims to be
  std::span<const float> sketch;  // empty unless sound and of the size that all ranks of the step share
};

struct RankView {
  const Record* record = nullptr;
  GradientView gradient;  // before the reduction
  GradientView reduced;   // after it
};

struct StepView {
  std::vector<RankView> ranks;    // ascending rank
  std::size_t sketch_dim = 0;     // 0: no sketches in this step
  std::size_t reduced_dim = 0;    // 0: none, or not a divisor of sketch_dim
  bool every_rank_sound = false;  // all ranks of the group are here with a sound gradient
};

StepView view_of(const Step& step);

}  // namespace lockstep::stats
