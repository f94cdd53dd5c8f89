// The fast digest of one contiguous run on the CPU, dispatched at run time to the best instruction set.
//
// A Lane is what one thread accumulates. It knows nothing of threads, segment lists or results: digest.cc owns those.
#pragma once

#include <cstdint>

#include "lockstep/digest.h"

namespace lockstep::digests::cpu {

// How the fp32 bins lie in memory. 16-bit kernels widen a word to its even and its odd element, so they keep the bins
// of even and odd offsets in vectors apart; bringing elements back in order would cost them a shuffle per vector.
enum class BinLayout : std::uint8_t { kNatural, kEvenOdd };

// The accumulators of one thread. Bins are two-level: fp32 in L1, emptied into fp64 before rounding can add up.
struct Lane {
  double sum_squares = 0;
  double max_abs = 0;
  std::uint64_t nonfinite = 0;
  std::uint64_t hash = 0;

  std::uint64_t seed = 0;
  std::uint32_t k = 0;        // 0: no sketch, and the pointers are null
  float* bins = nullptr;      // k, aligned to kBinAlignment
  double* wide = nullptr;     // k, aligned to kBinAlignment
  std::uint64_t pending = 0;  // elements in `bins` since they were emptied
  BinLayout layout = BinLayout::kNatural;
};

inline constexpr std::size_t kBinAlignment = 64;

// Adds the run to the lane. The dtype must be valid.
void digest_run(const Segment& run, Lane& lane) noexcept;

// Empties the fp32 bins into the fp64 bins.
void flush_bins(Lane& lane) noexcept;

// The hash of the run alone.
std::uint64_t hash_run(const Segment& run) noexcept;

// The instruction set that the functions above use now.
const char* isa_name() noexcept;

}  // namespace lockstep::digests::cpu
