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

  // `p` is the place in the tile of the first word.
  HWY_INLINE void add(VU32 words, std::size_t p) {
    const DI16 d;
    const VI16 halves = hn::BitCast(d, words);
    s0 = add_products(s0, halves, hn::Load(d, kHashWeights.half[0] + 2 * p));
    s1 = add_products(s1, halves, hn::Load(d, kHashWeights.half[1] + 2 * p));
    s2 = add_products(s2, halves, hn::Load(d, kHashWeights.half[2] + 2 * p));
    s3 = add_products(s3, halves, hn::Load(d, kHashWeights.half[3] + 2 * p));
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

// C_t of one tile, gathered row by row: a row is one cache line.
struct TileHash {
  static constexpr std::size_t kParts = kColumns / kLanes;
  ColumnSums parts[kParts];

  HWY_INLINE TileHash() {}

  // Weighs row `row` of the tile at `bytes`, and shows its vectors to visit(words).
  template <class Visit>
  HWY_INLINE void add_row(const unsigned char* bytes, std::size_t row, const Visit& visit) {
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kParts; ++i) {
      const std::size_t p = row * kColumns + i * kLanes;
      const VU32 words = load_words(bytes + p * 4);
      parts[i].add(words, p);
      visit(words);
    }
  }

  // R_t * C_t, spread over lanes.
  HWY_INLINE VU64 weighted(std::uint64_t weight) const {
    VU64 sum = parts[0].weighted(0);
    for (std::size_t i = 1; i < kParts; ++i) sum = hn::Add(sum, parts[i].weighted(i * kLanes));
    return hn::Mul(sum, hn::Set(DU64(), weight));
  }
};

// By hand, because GCC's own reduction adds signed numbers, for which wrapping around is undefined.
HWY_INLINE std::uint64_t sum_of_lanes(VU64 v) {
  const DU64 d;
  alignas(64) std::uint64_t lanes[hn::MaxLanes(d)];
  hn::Store(v, d, lanes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) sum += lanes[i];
  return sum;
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
LOCKSTEP_AFTER_KERNELS();
HWY_AFTER_NAMESPACE();
#endif

#endif
