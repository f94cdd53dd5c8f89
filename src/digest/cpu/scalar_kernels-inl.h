// The kernels for a machine without vectors: the careful path for values, one multiplication at a time for the hash.
#if defined(LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#undef LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#else
#define LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "digest/cpu/careful.h"
#include "digest/cpu/kernels.h"
#include "digest/cpu/tiles-inl.h"
#include "digest/keys.h"

#if HWY_TARGET == HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {

std::uint64_t HashRun(const Segment& run) {
  const std::uint64_t weights = hash_key(run.parameter, run.dtype);
  std::uint64_t hash = 0;
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile) {
    std::uint64_t sum = 0;
    for (std::uint32_t p = 0; p < kTileWords; ++p) {
      std::uint32_t x;
      std::memcpy(&x, bytes + p * sizeof(x), sizeof(x));
      sum += std::uint64_t{kTileWeights.t[p]} * x + std::uint64_t{kTileWeights.u[p]} * std::rotl(x, 16);
    }
    hash += tile_weight(weights, tile) * sum;
  });
  return hash;
}

void AddRun(const Segment& run, Lane& lane) {
  lane.hash += HashRun(run);
  add_carefully(run.dtype, static_cast<const unsigned char*>(run.data), run.parameter, run.offset, run.count, lane);
}

void FlushBins(Lane& lane) {
  lane.pending = 0;
}  // nothing is ever in the fp32 bins

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
