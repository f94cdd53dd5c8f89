// What rank 0 tells the other ranks after each analysed step: the step's metrics without the per-rank parts.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/stats.h"
#include "lockstep/status.h"

namespace lockstep::monitor {

std::vector<std::byte> pack_publication(const StepStats& stats);
Result<StepStats> unpack_publication(std::span<const std::byte> bytes);

// Upper bound of a publication's size, for transports with fixed slots.
inline constexpr std::size_t kMaxPublicationBytes = 256;

}  // namespace lockstep::monitor
