// The content hash of one tile, compiled once per instruction set.
//
// A tile is 16 rows of 16 words. Every SIMD set has an instruction that multiplies signed 16-bit halves with weights
// and adds neighbours (pmaddwd and its kin), so one instruction weighs a whole word; the sums are exact 32-bit
// integers.
#if defined(LOCKSTEP_DIGEST_HASH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_HASH_INL_H_
#undef LOCKSTEP_DIGEST_HASH_INL_H_
#else
#define LOCKSTEP_DIGEST_HASH_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "digest/cpu/vectors-inl.h"
#include "digest/keys.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
LOCKSTEP_BEFORE_KERNELS();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sum + low halves * low halves + high halves * high halves, lane by lane.
HWY_INLINE VI32 add_products(VI32 sum, VI16 a, VI16 b) {
#if HWY_TARGET == HWY_AVX3_DL
  return VI32{_mm512_dpwssd_epi32(sum.raw, a.raw, b.raw)};  // Highway 1.0.3 has no operation for it
#elif HWY_ARCH_X86
  VI32 unused = hn::Zero(DI32());
  return hn::ReorderWidenMulAccumulate(DI32(), a, b, sum, unused);  // on x86 it adds neighbours, see the tests
#else
  const DI32 d;
  const VI32 a32 = hn::BitCast(d, a), b32 = hn::BitCast(d, b);
  const VI32 low = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a32)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b32)));
  return hn::Add(sum, hn::Add(low, hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32))));
#endif
}

// The weighted sums of as many columns as a vector has lanes.
struct ColumnSums {
  VI32 s0, s1, s2, s3;

  // Written out (here and below) because GCC compiles implicit constructors for the baseline, not for this target.
  HWY_INLINE ColumnSums() { s0 = s1 = s2 = s3 = hn::Zero(DI32()); }

  HWY_INLINE void add(VU32 words, VI16 w0, VI16 w1, VI16 w2, VI16 w3) {
    const VI16 halves = hn::BitCast(DI16(), words);
    s0 = add_products(s0, halves, w0);
    s1 = add_products(s1, halves, w1);
    s2 = add_products(s2, halves, w2);
    s3 = add_products(s3, halves, w3);
  }

  // Each column's sums joined, times the weight of the column, added up into 64-bit lanes.
  HWY_INLINE VU64 weighted(std::size_t first_column) const {
    const VI64 even = joined(s0, s1, s2, s3);
    const VI64 odd = joined(odd_lanes(s0), odd_lanes(s1), odd_lanes(s2), odd_lanes(s3));
    const DU64 d;
    return hn::Add(hn::Mul(hn::BitCast(d, even), hn::LoadU(d, kHashWeights.even_column + first_column / 2)),
                   hn::Mul(hn::BitCast(d, odd), hn::LoadU(d, kHashWeights.odd_column + first_column / 2)));
  }

 private:
  static HWY_INLINE VI64 joined(VI32 a, VI32 b, VI32 c, VI32 e) {
    const DI32 d;
    return hn::Add(
        hn::Add(hn::MulEven(a, hn::Set(d, kHashWeights.sum[0])), hn::MulEven(b, hn::Set(d, kHashWeights.sum[1]))),
        hn::Add(hn::MulEven(c, hn::Set(d, kHashWeights.sum[2])), hn::MulEven(e, hn::Set(d, kHashWeights.sum[3]))));
  }
  static HWY_INLINE VI32 odd_lanes(VI32 v) { return hn::BitCast(DI32(), hn::ShiftRight<32>(hn::BitCast(DU64(), v))); }
};
static_assert(kColumnSums == 4);

// R_t * C_t, where `columns` holds C_t spread over its lanes.
HWY_INLINE VU64 weigh_tile(VU64 columns, std::uint64_t weight) {
  return hn::Mul(columns, hn::Set(DU64(), weight));
}

// How far ahead of the read the next lines are asked for.
inline constexpr std::size_t kPrefetchBytes = 2048;

// Hashes kTiles (1 or 2) consecutive tiles side by side, so that they share the loads of the weights: hashes[i] becomes
// C_t of tile i, spread over lanes. Every vector of tile i is shown to visit(i, words) on the way. This is the first
// read of a tile, so it asks for the lines of later ones; a row is one cache line.
template <std::size_t kTiles, class Visit>
HWY_INLINE void hash_tiles(const unsigned char* bytes, VU64 (&hashes)[2], const Visit& visit) {
  const DI16 d;
  hashes[0] = hashes[1] = hn::Zero(DU64());
  for (std::size_t column = 0; column < kColumns; column += kLanes) {
    ColumnSums first, second;
    HWY_UNROLL(4)
    for (std::size_t p = column; p < kTileWords; p += kColumns) {
      const VI16 w0 = hn::Load(d, kHashWeights.half[0] + 2 * p);
      const VI16 w1 = hn::Load(d, kHashWeights.half[1] + 2 * p);
      const VI16 w2 = hn::Load(d, kHashWeights.half[2] + 2 * p);
      const VI16 w3 = hn::Load(d, kHashWeights.half[3] + 2 * p);
      if (column == 0) {
        hwy::Prefetch(bytes + kTiles * p * 4 + kPrefetchBytes);
        if constexpr (kTiles == 2) hwy::Prefetch(bytes + kTiles * p * 4 + 64 + kPrefetchBytes);
      }
      const VU32 x = load_words(bytes + p * 4);
      first.add(x, w0, w1, w2, w3);
      visit(0, x);
      if constexpr (kTiles == 2) {
        const VU32 y = load_words(bytes + p * 4 + kTileBytes);
        second.add(y, w0, w1, w2, w3);
        visit(1, y);
      }
    }
    hashes[0] = hn::Add(hashes[0], first.weighted(column));
    if constexpr (kTiles == 2) hashes[1] = hn::Add(hashes[1], second.weighted(column));
  }
}

HWY_INLINE std::uint64_t sum_of_lanes(VU64 v) {
  return hn::GetLane(hn::SumOfLanes(DU64(), v));
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
LOCKSTEP_AFTER_KERNELS();
HWY_AFTER_NAMESPACE();
#endif

#endif
