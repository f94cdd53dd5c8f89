// How the fast kernels read fp32, bf16 and fp16 out of vectors of 32-bit words, compiled once per instruction set.
//
// A format says: which magnitudes fp32 arithmetic can square, and how one vector of words becomes vectors of signed
// fp32 elements. 16-bit formats give two vectors per word vector: the even and the odd elements.
#if defined(LOCKSTEP_DIGEST_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_FORMATS_INL_H_
#undef LOCKSTEP_DIGEST_FORMATS_INL_H_
#else
#define LOCKSTEP_DIGEST_FORMATS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "digest/cpu/kernels.h"
#include "digest/cpu/vectors-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Flips the top bit of the lanes of `v` (integers) whose bit in `bits` is set; lane 0 is bit 0.
template <class D>
HWY_INLINE hn::Vec<D> flip_top_bits(D d, hn::Vec<D> v, std::uint32_t bits) {
  const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
  const auto top = hn::Set(d, hwy::LimitsMin<hn::TFromD<D>>());
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return hn::IfThenElse(mask, hn::Add(v, top), v);  // one masked addition; modulo 2^n it flips the top bit
#else
  return hn::Xor(v, hn::And(hn::VecFromMask(d, mask), top));
#endif
}

// The squares of 256 fp32 numbers below 2^59 do not overflow; when the largest is at least 2^-56, what the squares of
// the smaller ones lose to underflow is below 1e-8 of the sum.
inline constexpr int kTooLargeExponent = 59;
inline constexpr int kTooSmallExponent = -56;

struct Float32 {
  static constexpr DType kDType = DType::kFloat32;
  static constexpr BinLayout kLayout = BinLayout::kNatural;
  static constexpr std::size_t kPerWord = 1;
  using Magnitude = std::int32_t;  // the bits without the sign order as integers
  static constexpr Magnitude kMagnitudeMask = 0x7fffffff;
  static constexpr Magnitude kTooLarge = (127 + kTooLargeExponent) << 23;
  static constexpr Magnitude kTooSmall = (127 + kTooSmallExponent) << 23;

  static VU32 flip_signs(VU32 words, std::uint64_t signs) {
    const DI32 d;
    return hn::BitCast(DU32(), flip_top_bits(d, hn::BitCast(d, words), static_cast<std::uint32_t>(signs)));
  }
  static VF32 first(VU32 words) { return hn::BitCast(DF32(), words); }
  static double magnitude_value(Magnitude bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

struct Words16 {
  static constexpr BinLayout kLayout = BinLayout::kEvenOdd;
  static constexpr std::size_t kPerWord = 2;
  using Magnitude = std::int16_t;
  static constexpr Magnitude kMagnitudeMask = 0x7fff;

  static VU32 flip_signs(VU32 words, std::uint64_t signs) {
    const DI16 d;
    return hn::BitCast(DU32(), flip_top_bits(d, hn::BitCast(d, words), static_cast<std::uint32_t>(signs)));
  }
};

struct BFloat16 : Words16 {
  static constexpr DType kDType = DType::kBFloat16;
  static constexpr Magnitude kTooLarge = (127 + kTooLargeExponent) << 7;
  static constexpr Magnitude kTooSmall = (127 + kTooSmallExponent) << 7;

  static VF32 first(VU32 words) { return hn::BitCast(DF32(), hn::ShiftLeft<16>(words)); }
  static VF32 second(VU32 words) { return hn::BitCast(DF32(), hn::And(words, hn::Set(DU32(), 0xffff0000u))); }
  static double magnitude_value(Magnitude bits) {
    return Float32::magnitude_value(static_cast<std::int32_t>(bits) << 16);
  }
};

struct Float16 : Words16 {
  static constexpr DType kDType = DType::kFloat16;
  static constexpr Magnitude kTooLarge = 0x7c00;  // only infinities and NaN
  static constexpr Magnitude kTooSmall = 1;       // any non-zero: the smallest is 2^-24

  // The fields of an fp16 in the places of those of an fp32; a product with 2^112 mends the bias of the exponent, and
  // is exact for denormals too.
  static VF32 from_high_half(VU32 words) {
    const DI32 di;
    const auto fields = hn::And(hn::ShiftRight<3>(hn::BitCast(di, words)), hn::Set(di, static_cast<int>(0x8fffe000u)));
    return hn::Mul(hn::BitCast(DF32(), fields), hn::Set(DF32(), 0x1p112f));
  }
  static VF32 first(VU32 words) { return from_high_half(hn::ShiftLeft<16>(words)); }
  static VF32 second(VU32 words) { return from_high_half(words); }
  static double magnitude_value(Magnitude bits) {
    return Float32::magnitude_value(static_cast<std::int32_t>(bits) << 13) * 0x1p112;
  }
};

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
