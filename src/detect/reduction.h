// sync.missing, sync.partial, sync.corrupted, and replica.diverged where one rank rescales its reduced gradient.
//
// After an all-reduce every rank holds the same bits, so unequal hashes at the optimizer step are certain proof. Which
// of the causes it is, and on which ranks, follows from what each rank holds: its own gradient, the mean, a multiple of
// the mean, a mixture, or none of these. Equal bits on all ranks are checked against the mean of the sketches.
#pragma once

#include <optional>

#include "detect/ballot.h"
#include "detect/detector.h"
#include "detect/reduction_model.h"

namespace lockstep::detect {

class Reduction final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  void check_equal(const Observation& now, const ReductionModel& model, Symptoms& out);

  double largest_gap_ = 0;  // of healthy steps: the rounding that this host has
  std::uint64_t healthy_steps_ = 0;
};

}  // namespace lockstep::detect
