// hardware.sdc_suspect: bursts of absurdly long gradients on one rank, as corrupted exponents make them.
//
// One hard batch must not alarm: the tail of healthy norm ratios is taken to be no heavier than x^-1.5, anchored at the
// run's own 99 % quantile. The rule of arXiv 2604.00726 (jump of the optimizer's update) is evaluated where the host
// gives the update's RMS, and goes into the evidence; on its own it has no stated false-alarm rate.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "detect/detector.h"
#include "detect/position_test.h"

namespace lockstep::detect {

// |R_t - R_(t-1)| > mu / (alpha sqrt(G_t)), R the update's RMS, G the growth of the gradient norm, mu frozen after
// warm-up.
class UpdateJump {
 public:
  // True: an anomaly. No verdict (false) in the first steps, and where the norm did not grow.
  bool add(double update_rms, double norm);

 private:
  std::optional<double> last_rms_;
  std::optional<double> last_norm_;
  double sum_ = 0;
  std::uint64_t count_ = 0;
};

class SdcSuspect final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  struct Burst {
    double evidence = 0;  // Shiryaev-Roberts sum
    std::uint64_t first_step = 0;
    std::uint64_t last_step = 0;
    std::uint64_t steps = 0;
    double largest = 0;  // ratio of norms
  };
  double quantile() const;

  std::deque<double> history_;  // log ratios of all ranks
  std::map<std::uint32_t, Burst> bursts_;
  UpdateJump update_;
};

}  // namespace lockstep::detect
