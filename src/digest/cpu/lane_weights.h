// The hash weights in the order in which vector kernels load them.
#pragma once

#include <cstdint>

#include "digest/keys.h"

namespace lockstep::digests::cpu {

// kTileWeights, and again with the two words of each 64-bit lane swapped.
struct LaneWeights {
  alignas(64) std::uint32_t t[kTileWords];
  alignas(64) std::uint32_t t_swapped[kTileWords];
  alignas(64) std::uint32_t u[kTileWords];
  alignas(64) std::uint32_t u_swapped[kTileWords];
};

constexpr LaneWeights make_lane_weights() noexcept {
  LaneWeights weights{};
  for (std::uint32_t p = 0; p < kTileWords; ++p) {
    weights.t[p] = weights.t_swapped[p ^ 1] = kTileWeights.t[p];
    weights.u[p] = weights.u_swapped[p ^ 1] = kTileWeights.u[p];
  }
  return weights;
}

inline constexpr LaneWeights kLaneWeights = make_lane_weights();

}  // namespace lockstep::digests::cpu
