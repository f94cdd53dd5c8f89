// order.nondeterministic and hardware.sdc_suspect where a step is computed twice (a resume, or a recompute on demand):
// the same data on the same weights must give the same bits.
#pragma once

#include <deque>
#include <vector>

#include "detect/detector.h"

namespace lockstep::detect {

class Recompute final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  struct Memory {  // what a rank had in a step
    std::uint32_t rank = 0;
    std::uint64_t data = 0;  // hash of its fingerprints in order
    StateHash weights;
    StateHash rng;
    std::uint64_t gradient = 0;
    std::uint64_t reduced = 0;
    bool comparable = false;
  };
  struct Past {
    std::uint64_t step = 0;
    std::vector<Memory> ranks;
  };
  static Past remember(const Step& step);

  std::deque<Past> past_;
};

}  // namespace lockstep::detect
