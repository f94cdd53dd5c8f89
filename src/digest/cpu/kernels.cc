#include "digest/cpu/kernels.h"

#include <algorithm>

#include "digest/cpu/careful.h"
#include "digest/cpu/float_mode.h"

// Vectors are members of structs here, which the scalable sets do not allow.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "digest/cpu/kernels.cc"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

// One of the two defines AddRun, HashRun and FlushBins for the target.
#include "digest/cpu/scalar_kernels-inl.h"
#include "digest/cpu/vector_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {

const char* TargetName() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::digests::cpu {
namespace {

HWY_EXPORT(AddRun);
HWY_EXPORT(HashRun);
HWY_EXPORT(FlushBins);
HWY_EXPORT(TargetName);

// fp64 is rare in training: hash and careful sums go over pieces that stay in cache.
void digest_float64(const Segment& run, Lane& lane) noexcept {
  constexpr std::uint64_t kPiece = 2048;
  Segment piece = run;
  for (std::uint64_t done = 0; done < run.count; done += piece.count) {
    piece.offset = run.offset + done;
    piece.data = static_cast<const unsigned char*>(run.data) + done * sizeof(double);
    piece.count = std::min(kPiece - piece.offset % kPiece, run.count - done);
    lane.hash += HWY_DYNAMIC_DISPATCH(HashRun)(piece);
    add_carefully(run.dtype, static_cast<const unsigned char*>(piece.data), run.parameter, piece.offset, piece.count,
                  lane);
  }
}

}  // namespace

void digest_run(const Segment& run, Lane& lane) noexcept {
  const DefaultFloatMode mode;
  run.dtype == DType::kFloat64 ? digest_float64(run, lane) : HWY_DYNAMIC_DISPATCH(AddRun)(run, lane);
}

void flush_bins(Lane& lane) noexcept {
  const DefaultFloatMode mode;
  if (lane.k != 0) HWY_DYNAMIC_DISPATCH(FlushBins)(lane);
}

std::uint64_t hash_run(const Segment& run) noexcept {
  return HWY_DYNAMIC_DISPATCH(HashRun)(run);
}

const char* isa_name() noexcept {
  return HWY_DYNAMIC_DISPATCH(TargetName)();
}

}  // namespace lockstep::digests::cpu
#endif
