// scale.token_skew: a rank that persistently has more or fewer tokens, in training that averages the ranks' means.
#pragma once

#include "detect/detector.h"
#include "detect/position_test.h"
#include "detect/rank_history.h"

namespace lockstep::detect {

class TokenSkew final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  PositionTest test_;
  RankHistory ratios_;
  RankHistory biases_;  // mean of means over token-weighted mean, under rank 0
};

}  // namespace lockstep::detect
