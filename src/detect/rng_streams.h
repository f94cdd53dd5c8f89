// rng.shared and rng.diverged: random streams that are equal where they must differ, or differ where they were equal.
#pragma once

#include <optional>

#include "detect/detector.h"

namespace lockstep::detect {

class RngStreams final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  std::optional<std::uint64_t> last_equal_;
  std::optional<std::uint64_t> first_shared_;
  std::optional<std::uint64_t> first_unequal_;
};

}  // namespace lockstep::detect
