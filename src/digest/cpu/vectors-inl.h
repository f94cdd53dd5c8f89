// The vector types of the kernels, compiled once per instruction set: all have the bytes of one vector of 32-bit words.
#if defined(LOCKSTEP_DIGEST_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_VECTORS_INL_H_
#undef LOCKSTEP_DIGEST_VECTORS_INL_H_
#else
#define LOCKSTEP_DIGEST_VECTORS_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

// AVX3_DL implies AVX512-VNNI at run time, but Highway 1.0.3 does not tell the compiler. Goes around functions that use
// it.
#undef LOCKSTEP_BEFORE_KERNELS
#undef LOCKSTEP_AFTER_KERNELS
#if HWY_TARGET == HWY_AVX3_DL
#define LOCKSTEP_BEFORE_KERNELS() HWY_PUSH_ATTRIBUTES("avx512vnni")
#define LOCKSTEP_AFTER_KERNELS() HWY_POP_ATTRIBUTES
#else
#define LOCKSTEP_BEFORE_KERNELS() static_assert(true, "For requiring trailing semicolon")
#define LOCKSTEP_AFTER_KERNELS() static_assert(true, "For requiring trailing semicolon")
#endif

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU32 = hn::ScalableTag<std::uint32_t>;
using DI32 = hn::RebindToSigned<DU32>;
using DU16 = hn::Repartition<std::uint16_t, DU32>;
using DI16 = hn::RebindToSigned<DU16>;
using DI64 = hn::Repartition<std::int64_t, DU32>;
using DU64 = hn::Repartition<std::uint64_t, DU32>;
using DF32 = hn::RebindToFloat<DU32>;
using DF64 = hn::RebindToFloat<DU64>;
using VI16 = hn::Vec<DI16>;
using VI32 = hn::Vec<DI32>;
using VI64 = hn::Vec<DI64>;
using VU32 = hn::Vec<DU32>;
using VU64 = hn::Vec<DU64>;
using VF32 = hn::Vec<DF32>;
using VF64 = hn::Vec<DF64>;

inline constexpr std::size_t kLanes = hn::MaxLanes(DU32());  // 32-bit lanes; no scalable set is built

// Any alignment.
HWY_INLINE VU32 load_words(const unsigned char* bytes) {
  return hn::LoadU(DU32(), reinterpret_cast<const std::uint32_t*>(bytes));
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
