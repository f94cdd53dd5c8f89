// rank.outlier: a rank whose gradient persistently points away from the mean of the others, beyond what noise does.
#pragma once

#include "detect/detector.h"
#include "detect/position_test.h"
#include "detect/rank_history.h"

namespace lockstep::detect {

class RankOutlier final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  PositionTest test_{PositionTest::Sides::kLow};
  RankHistory gaps_;  // leave-one-out cosine below the others' median
};

}  // namespace lockstep::detect
