// scale.rank_mismatch: a rank whose gradient is persistently a factor larger or smaller than the others', or zero.
#pragma once

#include <map>

#include "detect/detector.h"
#include "detect/position_test.h"
#include "detect/rank_history.h"

namespace lockstep::detect {

class RankScale final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  void find_zero(const Observation& now, Symptoms& out);

  PositionTest test_;
  RankHistory ratios_;  // log of norm over the median norm of the others
  struct Zeros {
    std::uint64_t steps = 0;
    std::uint64_t first_step = 0;
  };
  std::map<std::uint32_t, Zeros> zeros_;  // ranks whose gradient was zero in the steps up to now
};

}  // namespace lockstep::detect
