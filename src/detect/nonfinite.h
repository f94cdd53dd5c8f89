// value.nonfinite: NaN or infinity in a rank's loss or gradient, with the rank that had it first.
#pragma once

#include "detect/detector.h"

namespace lockstep::detect {

class Nonfinite final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  Ranks first_;  // ranks of the episode: the others catch it through the reduction
  std::uint64_t first_step_ = 0;
  std::uint64_t clean_steps_ = 0;
};

}  // namespace lockstep::detect
