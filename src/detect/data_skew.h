// data.skew: a rank whose loss is persistently off the others', judged per token count.
#pragma once

#include "detect/detector.h"
#include "detect/position_test.h"
#include "detect/rank_history.h"

namespace lockstep::detect {

class DataSkew final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  PositionTest test_;
  RankHistory offsets_;  // of the mean loss of the others
};

}  // namespace lockstep::detect
