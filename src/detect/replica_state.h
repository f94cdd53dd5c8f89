// replica.* and config.mismatch: hashes of state that all ranks must share.
#pragma once

#include <array>
#include <optional>

#include "detect/detector.h"

namespace lockstep::detect {

class ReplicaState final : public Detector {
 public:
  void on_step(const Observation& now, Symptoms& out) override;

 private:
  std::optional<std::uint64_t> first_watched_;
  std::array<std::optional<std::uint64_t>, kStateChannels> last_equal_;
  std::array<std::optional<std::uint64_t>, kStateChannels> first_unequal_;
  std::array<bool, kStateChannels> from_the_start_{};
};

}  // namespace lockstep::detect
