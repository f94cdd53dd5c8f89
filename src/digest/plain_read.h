// The yardstick of the digest's speed: a plain sum of squares over the same bytes, as fast as we know how to write it.
//
// It does nothing else: no range check, no fp64, no hash, no sketch. For benchmarks only.
#pragma once

#include <cstdint>

#include "lockstep/digest.h"

namespace lockstep::digests {

// fp32 or bf16. `prefetch_bytes` is the distance of software prefetch, 0 for none: benchmarks take the faster.
double plain_sum_squares(const Segment& segment, std::uint32_t prefetch_bytes) noexcept;

}  // namespace lockstep::digests
