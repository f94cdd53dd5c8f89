// data.identical_batches: ranks that read the same samples in the same step.
#pragma once

#include <map>

#include "detect/detector.h"

namespace lockstep::detect {

class IdenticalBatches final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  struct Run {
    std::uint64_t samples = 0;  // different ones that the ranks shared in a row of steps
    std::uint64_t first_step = 0;
    std::uint64_t last_step = 0;
  };
  void from_fingerprints(const Observation& now, Symptoms& out);
  void from_gradients(const Observation& now, Symptoms& out);
  void from_sampler(const Observation& now, Symptoms& out);

  std::map<Ranks, Run> runs_;
};

}  // namespace lockstep::detect
