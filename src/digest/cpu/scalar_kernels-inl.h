// The kernels for a machine without vectors: the careful path for values, one multiplication at a time for the hash.
#if defined(LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#undef LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#else
#define LOCKSTEP_DIGEST_SCALAR_KERNELS_INL_H_
#endif

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

inline std::uint64_t hash_tile(const unsigned char* bytes) {
  std::int64_t sums[kColumnSums][kColumns] = {};
  for (std::uint32_t i = 0; i < 2 * kTileWords; ++i) {
    std::int16_t half;
    std::memcpy(&half, bytes + i * sizeof(half), sizeof(half));
    for (std::uint32_t j = 0; j < kColumnSums; ++j) {
      sums[j][i / 2 % kColumns] += std::int64_t{half} * kHashWeights.half[j][i];
    }
  }
  std::uint64_t hash = 0;
  for (std::uint32_t c = 0; c < kColumns; ++c) {
    std::uint64_t column = 0;
    for (std::uint32_t j = 0; j < kColumnSums; ++j) {
      column += static_cast<std::uint64_t>(sums[j][c]) * static_cast<std::uint64_t>(kHashWeights.sum[j]);
    }
    hash += kHashWeights.column[c] * column;
  }
  return hash;
}

std::uint64_t HashRun(const Segment& run) {
  const std::uint64_t weights = hash_key(run.parameter, run.dtype);
  std::uint64_t hash = 0;
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile, std::uint64_t tiles) {
    for (std::uint64_t i = 0; i < tiles; ++i) {
      hash += tile_weight(weights, tile + i) * hash_tile(bytes + i * kTileBytes);
    }
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
