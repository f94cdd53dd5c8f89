// scale.impossible_norm: norms that no mean of the ranks' gradients can have.
#pragma once

#include <optional>

#include "detect/detector.h"

namespace lockstep::detect {

class ImpossibleNorm final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  void check_records(const Observation& now, Symptoms& out);
  void check_mean(const Observation& now, Symptoms& out);

  std::optional<double> last_norm_;  // |G| of the step before
  bool is_sum_ = false;              // the host adds gradients up instead of averaging them
  std::uint64_t judged_ = 0;
  std::uint64_t above_ = 0;  // steps in a row
  std::uint64_t first_step_ = 0;
};

}  // namespace lockstep::detect
