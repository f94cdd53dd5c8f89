// data.coverage_loss: an epoch ends before all of the data set was read.
#pragma once

#include "detect/detector.h"

namespace lockstep::detect {

class CoverageLoss final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  void from_sampler(const Observation& now, Symptoms& out);
  std::uint64_t largest_step_ = 0;  // samples
};

}  // namespace lockstep::detect
