#include "digest/plain_read.h"

#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "digest/plain_read.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DU32 = hn::ScalableTag<std::uint32_t>;
using DF32 = hn::RebindToFloat<DU32>;

// Eight independent sums hide the latency of the additions. Reads whole steps of 8 vectors; the rest is left out, which
// a benchmark of megabytes does not notice.
template <bool kBFloat16, bool kPrefetch>
double sum_squares(const unsigned char* bytes, std::uint64_t count, std::size_t prefetch_bytes) {
  const DU32 d;
  const DF32 df;
  constexpr std::size_t kVectors = 8;
  constexpr std::size_t kVectorBytes = 4 * hn::MaxLanes(DU32());
  auto s0 = hn::Zero(df), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const auto add = [&](std::uint64_t at, hn::Vec<DF32>& even, hn::Vec<DF32>& odd) HWY_ATTR {
    const auto words = hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(bytes + at));
    if constexpr (kBFloat16) {
      const auto x0 = hn::BitCast(df, hn::ShiftLeft<16>(words));
      const auto x1 = hn::BitCast(df, hn::And(words, hn::Set(d, 0xffff0000u)));
      even = hn::MulAdd(x0, x0, even);
      odd = hn::MulAdd(x1, x1, odd);
    } else {
      const auto x = hn::BitCast(df, words);
      even = hn::MulAdd(x, x, even);
    }
  };
  for (std::uint64_t at = 0; at + kVectors * kVectorBytes <= count; at += kVectors * kVectorBytes) {
    if constexpr (kPrefetch) {
      for (std::size_t line = 0; line < kVectors * kVectorBytes; line += 64) {
        hwy::Prefetch(bytes + at + prefetch_bytes + line);
      }
    }
    add(at + 0 * kVectorBytes, s0, s4);
    add(at + 1 * kVectorBytes, s1, s5);
    add(at + 2 * kVectorBytes, s2, s6);
    add(at + 3 * kVectorBytes, s3, s7);
    add(at + 4 * kVectorBytes, s4, s0);
    add(at + 5 * kVectorBytes, s5, s1);
    add(at + 6 * kVectorBytes, s6, s2);
    add(at + 7 * kVectorBytes, s7, s3);
  }
  const auto s = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)));
  return hn::GetLane(hn::SumOfLanes(df, s));
}

double SumSquares(const unsigned char* bytes, std::uint64_t count, bool bfloat16, std::size_t prefetch_bytes) {
  if (bfloat16) {
    return prefetch_bytes != 0 ? sum_squares<true, true>(bytes, count, prefetch_bytes)
                               : sum_squares<true, false>(bytes, count, 0);
  }
  return prefetch_bytes != 0 ? sum_squares<false, true>(bytes, count, prefetch_bytes)
                             : sum_squares<false, false>(bytes, count, 0);
}

}  // namespace lockstep::digests::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::digests {
namespace {
HWY_EXPORT(SumSquares);
}

double plain_sum_squares(const Segment& segment, std::uint32_t prefetch_bytes) noexcept {
  return HWY_DYNAMIC_DISPATCH(SumSquares)(static_cast<const unsigned char*>(segment.data),
                                          segment.count * size_of(segment.dtype), segment.dtype == DType::kBFloat16,
                                          prefetch_bytes);
}

}  // namespace lockstep::digests
#endif
