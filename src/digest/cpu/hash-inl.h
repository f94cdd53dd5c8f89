// The content hash of one tile of 256 words, compiled once per instruction set.
//
// C_t = sum_p T[p]*X_p + U[p]*rotl(X_p,16): 32x32->64-bit products, which every SIMD set multiplies in even lanes. The
// odd lanes are shifted down, and their weights come from tables with the lanes of each pair swapped.
#if defined(LOCKSTEP_DIGEST_HASH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_HASH_INL_H_
#undef LOCKSTEP_DIGEST_HASH_INL_H_
#else
#define LOCKSTEP_DIGEST_HASH_INL_H_
#endif

#include <hwy/highway.h>

#include "digest/cpu/lane_weights.h"
#include "digest/cpu/vectors-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The words X_p of one tile are added in any order; `sum` then holds C_t, spread over its lanes.
struct TileHash {
  VU64 even, odd;

  // Written out (here and below) because GCC compiles implicit constructors for the baseline, not for this target.
  HWY_INLINE TileHash() : even(hn::Zero(DU64())), odd(hn::Zero(DU64())) {}

  // `p` is the place in the tile of the first word of `x`, a multiple of the vector length.
  HWY_INLINE void add(VU32 x, std::size_t p) {
    const DU32 d;
    const DU64 d64;
    const VU32 rotated = hn::BitCast(d, hn::Reverse2(DU16(), hn::BitCast(DU16(), x)));  // by half a word
    const VU32 x_odd = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, x)));
    const VU32 rotated_odd = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, rotated)));
    even = hn::Add(even, hn::MulEven(x, hn::Load(d, kLaneWeights.t + p)));
    odd = hn::Add(odd, hn::MulEven(x_odd, hn::Load(d, kLaneWeights.t_swapped + p)));
    even = hn::Add(even, hn::MulEven(rotated, hn::Load(d, kLaneWeights.u + p)));
    odd = hn::Add(odd, hn::MulEven(rotated_odd, hn::Load(d, kLaneWeights.u_swapped + p)));
  }

  // R_t * C_t, still spread over lanes.
  HWY_INLINE VU64 weighted(std::uint64_t weight) const { return hn::Mul(hn::Add(even, odd), hn::Set(DU64(), weight)); }
};

HWY_INLINE std::uint64_t sum_of_lanes(VU64 v) {
  return hn::GetLane(hn::SumOfLanes(DU64(), v));
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
