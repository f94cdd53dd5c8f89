// The walk over the tiles of a run, compiled once per instruction set so that the visitor is inlined.
#if defined(LOCKSTEP_DIGEST_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_TILES_INL_H_
#undef LOCKSTEP_DIGEST_TILES_INL_H_
#else
#define LOCKSTEP_DIGEST_TILES_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "digest/keys.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {

// Calls visit(bytes, tile, n) for all tiles that the run touches, in order, where n tiles from `tile` on lie at
// `bytes`. A tile that the run covers only in part comes alone, completed with zeros in a buffer: zero bits add nothing
// to any part of a digest, so no kernel needs a remainder path.
template <class Visit>
HWY_INLINE void for_each_tile(const Segment& run, const Visit& visit) noexcept {
  const std::uint64_t size = size_of(run.dtype);
  const auto* data = static_cast<const unsigned char*>(run.data);
  const std::uint64_t per_tile = kTileBytes / size;
  std::uint64_t tile = run.offset / per_tile;
  std::uint64_t skip = run.offset % per_tile * size;  // bytes of the first tile that are not ours
  std::uint64_t left = run.count * size;
  while (left > 0) {
    if (skip == 0 && left >= kTileBytes) {
      const std::uint64_t whole = left / kTileBytes;
      visit(data, tile, whole);
      tile += whole;
      data += whole * kTileBytes;
      left %= kTileBytes;
    } else {
      alignas(64) unsigned char padded[kTileBytes] = {};
      const std::uint64_t take = left < kTileBytes - skip ? left : kTileBytes - skip;
      std::memcpy(padded + skip, data, take);
      visit(padded, tile, 1);
      ++tile;
      data += take;
      left -= take;
      skip = 0;
    }
  }
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
