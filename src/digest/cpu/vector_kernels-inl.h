// The fused pass over a run: hash, squares, largest magnitude and sketch of each tile while it is in L1. Compiled once
// per instruction set that has vectors; scalar_kernels-inl.h is the twin for machines without.
#if defined(LOCKSTEP_DIGEST_VECTOR_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIGEST_VECTOR_KERNELS_INL_H_
#undef LOCKSTEP_DIGEST_VECTOR_KERNELS_INL_H_
#else
#define LOCKSTEP_DIGEST_VECTOR_KERNELS_INL_H_
#endif

#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "digest/cpu/careful.h"
#include "digest/cpu/formats-inl.h"
#include "digest/cpu/hash-inl.h"
#include "digest/cpu/kernels.h"
#include "digest/cpu/tiles-inl.h"
#include "digest/cpu/vectors-inl.h"
#include "digest/keys.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How far ahead of the read the next lines are asked for. The hardware prefetcher alone leaves a third of the memory
// speed unused, because the work per line delays its misses.
inline constexpr std::size_t kPrefetchBytes = 2048;

// An fp32 bin is emptied after about this many additions: its error stays near sqrt(32) units of the last place.
inline constexpr std::uint64_t kAddsPerBin = 32;

// What one call gathers before it goes into the Lane.
template <class Format>
struct Totals {
  using DMagnitude = hn::Repartition<typename Format::Magnitude, DU32>;
  VU64 hash;
  VF64 sum_squares;
  hn::Vec<DMagnitude> largest;

  HWY_INLINE Totals() : hash(hn::Zero(DU64())), sum_squares(hn::Zero(DF64())), largest(hn::Zero(DMagnitude())) {}
};

// The sum over one sketch block in fp32, four interleaved sums so that each has at most 16 terms.
struct BlockSquares {
  VF32 s0, s1, s2, s3;

  HWY_INLINE BlockSquares() { s0 = s1 = s2 = s3 = hn::Zero(DF32()); }

  HWY_INLINE void add(VF32 x, std::size_t i) {
    VF32& s = i % 4 == 0 ? s0 : i % 4 == 1 ? s1 : i % 4 == 2 ? s2 : s3;
    s = hn::MulAdd(x, x, s);
  }
  HWY_INLINE VF64 total() const {
    const VF32 s = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    const hn::Half<DF32> half;
    return hn::Add(hn::PromoteTo(DF64(), hn::LowerHalf(half, s)), hn::PromoteTo(DF64(), hn::UpperHalf(half, s)));
  }
};

// Where the elements of one sketch block go: element j to bin j XOR r, which moves whole vectors and permutes the lanes
// of all of them alike.
template <class Format>
struct BlockBins {
  using Indices = decltype(hn::IndicesFromVec(DU32(), hn::Zero(DI32())));

  float* group;         // the 256 bins of the block
  std::size_t vectors;  // displacement of whole word vectors
  std::size_t parity;   // displacement between the even and the odd vector of a word vector, in floats
  Indices lanes;

  HWY_INLINE BlockBins(const Lane& lane, const SketchKey& key, std::uint64_t block)
      : BlockBins(lane, block, block_displacement(key, block)) {}

  HWY_INLINE BlockBins(const Lane& lane, std::uint64_t block, std::uint32_t r)
      : group(lane.bins +
              ((static_cast<std::uint32_t>(block * kBlockElements) ^ r) & (lane.k - 1) & ~(kBlockElements - 1))),
        vectors(r % kBlockElements / Format::kPerWord / kLanes),
        parity(Format::kPerWord == 2 ? (r & 1) * kLanes : 0),
        lanes(lane_indices(r / Format::kPerWord % kLanes)) {}

  static HWY_INLINE Indices lane_indices(std::uint32_t displacement) {
    const DI32 d;
    return hn::IndicesFromVec(DU32(), hn::Xor(hn::Iota(d, 0), hn::Set(d, static_cast<std::int32_t>(displacement))));
  }

  // Both halves of a word go the same way, so 16-bit elements are permuted before they are widened.
  HWY_INLINE VU32 permute(VU32 words) const { return hn::TableLookupLanes(words, lanes); }

  // `i` counts the word vectors of the block, whose lanes are permuted.
  HWY_INLINE void add(std::size_t i, std::size_t half, VF32 x) const {
    float* bin = group + (i ^ vectors) * Format::kPerWord * kLanes + (half * kLanes ^ parity);
    hn::Store(hn::Add(hn::Load(DF32(), bin), x), DF32(), bin);
  }
};

// Squares and sketch of one sketch block that fp32 can take.
template <class Format, bool kSketch>
HWY_INLINE VF64 add_block(const unsigned char* bytes, std::uint64_t block, const SketchKey& key, const Lane& lane) {
  constexpr std::size_t kGroupWords = kSignGroup / Format::kPerWord;
  constexpr std::size_t kGroups = kBlockElements / kSignGroup;
  BlockSquares squares;
  const BlockBins<Format> bins(lane, key, block);
  for (std::size_t group = 0; group < kGroups; ++group) {
    const std::uint64_t signs = kSketch ? sign_word(key, block * kGroups + group) : 0;
    HWY_UNROLL(8)
    for (std::size_t w = 0; w < kGroupWords; w += kLanes) {
      const std::size_t word = group * kGroupWords + w;
      VU32 x = load_words(bytes + word * 4);
      if constexpr (kSketch) x = bins.permute(Format::flip_signs(x, signs >> w * Format::kPerWord));
      const VF32 x0 = Format::first(x);
      squares.add(x0, w / kLanes * Format::kPerWord);
      if constexpr (kSketch) bins.add(word / kLanes, 0, x0);
      if constexpr (Format::kPerWord == 2) {
        const VF32 x1 = Format::second(x);
        squares.add(x1, w / kLanes * Format::kPerWord + 1);
        if constexpr (kSketch) bins.add(word / kLanes, 1, x1);
      }
    }
  }
  return squares.total();
}

// Returns C_t spread over lanes, and shows every vector of the tile to `visit` on the way. This is the first read of a
// tile, so it asks for the lines of later ones: a row is one cache line.
template <class Visit>
HWY_INLINE VI64 hash_tile(const unsigned char* bytes, const Visit& visit) {
  VI64 hash = hn::Zero(DI64());
  for (std::size_t column = 0; column < kColumns; column += kLanes) {
    ColumnSums sums;
    HWY_UNROLL(4)
    for (std::size_t p = column; p < kTileWords; p += kColumns) {
      if (column == 0) hwy::Prefetch(bytes + p * 4 + kPrefetchBytes);
      const VU32 x = load_words(bytes + p * 4);
      sums.add(x, p);
      visit(x);
    }
    hash = hn::Add(hash, sums.weighted(column));
  }
  return hash;
}

template <class Format, bool kSketch>
HWY_INLINE void add_tile(const unsigned char* bytes, std::uint64_t tile, std::uint32_t parameter, std::uint64_t weight,
                         const SketchKey& key, Lane& lane, Totals<Format>& totals) {
  constexpr std::size_t kBlocks = Format::kPerWord;
  constexpr std::size_t kElements = kBlocks * kBlockElements;
  const typename Totals<Format>::DMagnitude d;
  const auto magnitude_mask = hn::Set(d, Format::kMagnitudeMask);
  auto largest = hn::Zero(d);
  const VI64 hash = hash_tile(
      bytes, [&](VU32 x) HWY_ATTR { largest = hn::Max(largest, hn::And(hn::BitCast(d, x), magnitude_mask)); });
  totals.hash = hn::Add(totals.hash, weigh_tile(hash, weight));
  const bool too_large = !hn::AllFalse(d, hn::Gt(largest, hn::Set(d, Format::kTooLarge - 1)));
  const bool too_small = hn::AllFalse(d, hn::Gt(largest, hn::Set(d, Format::kTooSmall - 1)));
  if (HWY_UNLIKELY(too_large || too_small)) {
    if (too_small && hn::AllTrue(d, hn::Eq(largest, hn::Zero(d)))) return;  // zeros: common in embedding gradients
    add_carefully(Format::kDType, bytes, parameter, tile * kElements, kElements, lane);
    return;
  }
  totals.largest = hn::Max(totals.largest, largest);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    const VF64 squares = add_block<Format, kSketch>(bytes + b * (kTileBytes / kBlocks), tile * kBlocks + b, key, lane);
    totals.sum_squares = hn::Add(totals.sum_squares, squares);
  }
}

// Adds N natural bins to the fp64 bins.
HWY_INLINE void widen(VF32 v, double* wide) {
  const hn::Half<DF32> half;
  const std::size_t lanes = hn::Lanes(DF64());
  const DF64 d;
  hn::Store(hn::Add(hn::Load(d, wide), hn::PromoteTo(d, hn::LowerHalf(half, v))), d, wide);
  hn::Store(hn::Add(hn::Load(d, wide + lanes), hn::PromoteTo(d, hn::UpperHalf(half, v))), d, wide + lanes);
}

void FlushBins(Lane& lane) {
  const DF32 d;
  if (lane.pending == 0) return;
  for (std::size_t i = 0; i < lane.k; i += 2 * kLanes) {
    VF32 v0 = hn::Load(d, lane.bins + i);
    VF32 v1 = hn::Load(d, lane.bins + i + kLanes);
    if (lane.layout == BinLayout::kEvenOdd) {
      alignas(64) float natural[2 * kLanes];
      hn::StoreInterleaved2(v0, v1, d, natural);
      v0 = hn::Load(d, natural);
      v1 = hn::Load(d, natural + kLanes);
    }
    widen(v0, lane.wide + i);
    widen(v1, lane.wide + i + kLanes);
    hn::Store(hn::Zero(d), d, lane.bins + i);
    hn::Store(hn::Zero(d), d, lane.bins + i + kLanes);
  }
  lane.pending = 0;
}

template <class Format, bool kSketch>
void add_run(const Segment& run, Lane& lane) {
  constexpr std::uint64_t kElements = kTileBytes / size_of(Format::kDType);
  const std::uint64_t weights = hash_key(run.parameter, run.dtype);
  const SketchKey key = sketch_key(lane.seed, run.parameter);
  if (kSketch && lane.layout != Format::kLayout) {
    FlushBins(lane);
    lane.layout = Format::kLayout;
  }
  Totals<Format> totals;
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile) {
    add_tile<Format, kSketch>(bytes, tile, run.parameter, tile_weight(weights, tile), key, lane, totals);
    if constexpr (kSketch) {
      lane.pending += kElements;
      if (HWY_UNLIKELY(lane.pending >= kAddsPerBin * lane.k)) FlushBins(lane);
    }
  });
  lane.hash += sum_of_lanes(totals.hash);
  lane.sum_squares += hn::GetLane(hn::SumOfLanes(DF64(), totals.sum_squares));
  alignas(64) typename Format::Magnitude magnitudes[hn::MaxLanes(typename Totals<Format>::DMagnitude())];
  hn::Store(totals.largest, typename Totals<Format>::DMagnitude(), magnitudes);
  for (const auto bits : magnitudes) {
    const double value = Format::magnitude_value(bits);
    lane.max_abs = value > lane.max_abs ? value : lane.max_abs;
  }
}

template <class Format>
void add_run(const Segment& run, Lane& lane) {
  lane.k != 0 ? add_run<Format, true>(run, lane) : add_run<Format, false>(run, lane);
}

// Not for fp64, which kernels.cc keeps on the careful path.
void AddRun(const Segment& run, Lane& lane) {
  switch (run.dtype) {
    case DType::kFloat32:
      return add_run<Float32>(run, lane);
    case DType::kBFloat16:
      return add_run<BFloat16>(run, lane);
    case DType::kFloat16:
      return add_run<Float16>(run, lane);
    case DType::kFloat64:
      return;
  }
}

std::uint64_t HashRun(const Segment& run) {
  const std::uint64_t weights = hash_key(run.parameter, run.dtype);
  VU64 hash = hn::Zero(DU64());
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile) {
    hash = hn::Add(hash, weigh_tile(hash_tile(bytes, [](VU32) {}), tile_weight(weights, tile)));
  });
  return sum_of_lanes(hash);
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
