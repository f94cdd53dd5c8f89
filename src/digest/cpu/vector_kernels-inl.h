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
LOCKSTEP_BEFORE_KERNELS();
namespace lockstep::digests::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// An fp32 bin is emptied after about this many additions: its error stays near sqrt(32) units of the last place.
inline constexpr std::uint64_t kAddsPerBin = 32;

inline constexpr std::size_t kRows = kTileWords / kColumns;
inline constexpr std::size_t kRowBytes = kTileBytes / kRows;

// How far ahead lines are asked for: one page, so that the walk for the next page's address starts early too. Left out
// where the hash alone is wanted; there the hardware prefetcher keeps pace and instructions only slow it.
inline constexpr std::size_t kPrefetchBytes = 4096;

// What one call gathers before it goes into the Lane.
template <class Format>
struct Totals {
  using DMagnitude = hn::Repartition<typename Format::Magnitude, DU32>;
  using VMagnitude = hn::Vec<DMagnitude>;
  VU64 hash;
  VF64 sum_squares;
  VMagnitude largest;

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

// Where the elements of one sketch block go: element j to bin j XOR r. XOR moves whole sign groups, then whole vectors
// in a group, and permutes the lanes of all vectors alike.
template <class Format>
struct BlockBins {
  static constexpr std::size_t kVectors = kSignGroup / kLanes;  // fp32 vectors of a sign group
  using Indices = decltype(hn::IndicesFromVec(DU32(), hn::Zero(DI32())));

  float* bins;               // the 256 bins of the block
  std::size_t groups;        // displacement of sign groups
  Indices lanes;             // displacement of lanes
  std::size_t at[kVectors];  // where in a group of bins a vector goes, in floats

  HWY_INLINE BlockBins(const Lane& lane, std::uint64_t block, std::uint32_t r)
      : bins(lane.bins +
             ((static_cast<std::uint32_t>(block * kBlockElements) ^ r) & (lane.k - 1) & ~(kBlockElements - 1))),
        groups(r % kBlockElements / kSignGroup),
        lanes(lane_indices(r / Format::kPerWord % kLanes)) {
    // Vectors of 16-bit formats alternate between even and odd elements, so that bit 0 of r swaps them.
    const std::size_t words = r % kSignGroup / Format::kPerWord / kLanes;
    const std::size_t turn = Format::kPerWord == 2 ? 2 * words + r % 2 : words;
    for (std::size_t i = 0; i < kVectors; ++i) at[i] = (i ^ turn) * kLanes;
  }

  static HWY_INLINE Indices lane_indices(std::uint32_t displacement) {
    const DI32 d;
    return hn::IndicesFromVec(DU32(), hn::Xor(hn::Iota(d, 0), hn::Set(d, static_cast<std::int32_t>(displacement))));
  }

  // Both halves of a word go the same way, so 16-bit elements are permuted before they are widened.
  HWY_INLINE VU32 permute(VU32 words) const { return hn::TableLookupLanes(words, lanes); }

  HWY_INLINE float* group(std::size_t i) const { return bins + (i ^ groups) * kSignGroup; }

  // Adds vector `i` of a sign group to group(), lanes permuted.
  HWY_INLINE void add(float* group, std::size_t i, VF32 x) const {
    float* bin = group + at[i];
    hn::Store(hn::Add(hn::Load(DF32(), bin), x), DF32(), bin);
  }
};

// The first read of a tile: its hash, and the largest magnitude in each lane.
template <class Format>
struct TileScan {
  TileHash hash;
  typename Totals<Format>::VMagnitude largest;

  HWY_INLINE explicit TileScan(const unsigned char* bytes) : largest(hn::Zero(typename Totals<Format>::DMagnitude())) {
    const typename Totals<Format>::DMagnitude d;
    const auto mask = hn::Set(d, Format::kMagnitudeMask);
    HWY_UNROLL(4)
    for (std::size_t row = 0; row < kRows; ++row) {
      hwy::Prefetch(bytes + row * kRowBytes + kPrefetchBytes);
      hash.add_row(bytes, row,
                   [&](VU32 words) HWY_ATTR { largest = hn::Max(largest, hn::And(hn::BitCast(d, words), mask)); });
    }
  }
};

// Squares alone, where no sketch is wanted.
template <class Format>
HWY_INLINE void add_squares(const unsigned char* bytes, BlockSquares& squares) {
  for (std::size_t word = 0; word < kBlockElements / Format::kPerWord; word += 4 * kLanes) {
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < 4; ++i) {
      const VU32 x = load_words(bytes + (word + i * kLanes) * 4);
      squares.add(Format::first(x), i * Format::kPerWord);
      if constexpr (Format::kPerWord == 2) squares.add(Format::second(x), i * Format::kPerWord + 1);
    }
  }
}

// Squares and sketch of one sketch block that fp32 can take.
template <class Format>
HWY_INLINE void add_block(const unsigned char* bytes, std::uint64_t block, const SketchKey& key, const Lane& lane,
                          BlockSquares& squares) {
  constexpr std::size_t kGroupWords = kSignGroup / Format::kPerWord;
  constexpr std::size_t kGroups = kBlockElements / kSignGroup;
  const BlockBins<Format> bins(lane, block, block_displacement(key, block));
  for (std::size_t group = 0; group < kGroups; ++group, bytes += kGroupWords * 4) {
    const std::uint64_t signs = sign_word(key, block * kGroups + group);
    float* const to = bins.group(group);
    HWY_UNROLL(16)
    for (std::size_t w = 0; w < kGroupWords; w += kLanes) {
      const std::size_t i = w / kLanes * Format::kPerWord;
      const VU32 x = bins.permute(Format::flip_signs(load_words(bytes + w * 4), signs >> w * Format::kPerWord));
      const VF32 x0 = Format::first(x);
      squares.add(x0, i);
      bins.add(to, i, x0);
      if constexpr (Format::kPerWord == 2) {
        const VF32 x1 = Format::second(x);
        squares.add(x1, i + 1);
        bins.add(to, i + 1, x1);
      }
    }
  }
}

// kZero: nothing to add; common in embedding gradients.
enum class Range { kZero, kFast, kCareful };

template <class Format>
HWY_INLINE Range range_of(typename Totals<Format>::VMagnitude largest) {
  const typename Totals<Format>::DMagnitude d;
  const bool too_large = !hn::AllFalse(d, hn::Gt(largest, hn::Set(d, Format::kTooLarge - 1)));
  const bool too_small = hn::AllFalse(d, hn::Gt(largest, hn::Set(d, Format::kTooSmall - 1)));
  if (HWY_LIKELY(!too_large && !too_small)) return Range::kFast;
  return hn::AllTrue(d, hn::Eq(largest, hn::Zero(d))) ? Range::kZero : Range::kCareful;
}

// Squares and sketch of a tile in fast range.
template <class Format, bool kSketch>
HWY_INLINE void add_tile(const unsigned char* bytes, std::uint64_t tile, const SketchKey& key, const Lane& lane,
                         Totals<Format>& totals) {
  constexpr std::size_t kBlocks = Format::kPerWord;
  for (std::size_t b = 0; b < kBlocks; ++b) {
    BlockSquares squares;
    const unsigned char* block = bytes + b * (kTileBytes / kBlocks);
    if constexpr (kSketch) {
      add_block<Format>(block, tile * kBlocks + b, key, lane, squares);
    } else {
      add_squares<Format>(block, squares);
    }
    totals.sum_squares = hn::Add(totals.sum_squares, squares.total());
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

// `count` whole tiles at `bytes`.
template <class Format, bool kSketch>
HWY_INLINE void add_tiles(const unsigned char* bytes, std::uint64_t tile, std::uint64_t count, const Segment& run,
                          std::uint64_t weights, const SketchKey& key, Lane& lane, Totals<Format>& totals) {
  constexpr std::uint64_t kElements = kTileBytes / size_of(Format::kDType);
  for (const std::uint64_t end = tile + count; tile < end; ++tile, bytes += kTileBytes) {
    const TileScan<Format> scan(bytes);
    totals.hash = hn::Add(totals.hash, scan.hash.weighted(tile_weight(weights, tile)));
    const Range range = range_of<Format>(scan.largest);
    if (HWY_LIKELY(range == Range::kFast)) {
      totals.largest = hn::Max(totals.largest, scan.largest);
      add_tile<Format, kSketch>(bytes, tile, key, lane, totals);
    } else if (range == Range::kCareful) {
      add_carefully(Format::kDType, bytes, run.parameter, tile * kElements, kElements, lane);
    }
    if constexpr (kSketch) {
      lane.pending += kElements;
      if (HWY_UNLIKELY(lane.pending >= kAddsPerBin * lane.k)) FlushBins(lane);
    }
  }
}

template <class Format, bool kSketch>
void add_run(const Segment& run, Lane& lane) {
  const std::uint64_t weights = hash_key(run.parameter, run.dtype);
  const SketchKey key = sketch_key(lane.seed, run.parameter);
  if (kSketch && lane.layout != Format::kLayout) {
    FlushBins(lane);
    lane.layout = Format::kLayout;
  }
  Totals<Format> totals;
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile, std::uint64_t count)
                         HWY_ATTR { add_tiles<Format, kSketch>(bytes, tile, count, run, weights, key, lane, totals); });
  lane.hash += sum_of_lanes(totals.hash);
  lane.sum_squares += hn::GetLane(hn::SumOfLanes(DF64(), totals.sum_squares));
  const typename Totals<Format>::DMagnitude d;
  alignas(64) typename Format::Magnitude magnitudes[hn::MaxLanes(d)];
  hn::Store(totals.largest, d, magnitudes);
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
  VU64 sum = hn::Zero(DU64());
  for_each_tile(run, [&](const unsigned char* bytes, std::uint64_t tile, std::uint64_t count) HWY_ATTR {
    for (const std::uint64_t end = tile + count; tile < end; ++tile, bytes += kTileBytes) {
      TileHash hash;
      HWY_UNROLL(4)
      for (std::size_t row = 0; row < kRows; ++row) hash.add_row(bytes, row, [](VU32) HWY_ATTR {});
      sum = hn::Add(sum, hash.weighted(tile_weight(weights, tile)));
    }
  });
  return sum_of_lanes(sum);
}

}  // namespace lockstep::digests::cpu::HWY_NAMESPACE
LOCKSTEP_AFTER_KERNELS();
HWY_AFTER_NAMESPACE();
#endif

#endif
