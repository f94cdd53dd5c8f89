// data.epoch_replay: ranks read samples again in the order of an earlier epoch.
#pragma once

#include "detect/detector.h"

namespace lockstep::detect {

class EpochReplay final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;
};

}  // namespace lockstep::detect
