// The digest: one read of a gradient, turned into five numbers-for-life of it.
//
// Sum of squares, largest magnitude, count of non-finite elements, a 64-bit content hash and a k-dimensional linear
// sketch. An element is identified by (parameter index, offset in that parameter); hash and sketch are keyed by that
// identity and add up over segments, so a gradient may arrive in any buckets, any order and any split, on any ISA,
// thread count or device. docs/digest.md gives the formulas and their error bars.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/export.h"
#include "lockstep/status.h"

namespace lockstep {

enum class DType : std::uint8_t { kFloat32 = 0, kFloat64 = 1, kBFloat16 = 2, kFloat16 = 3 };

// Bytes of one element; 0 for a value that is no DType.
constexpr std::uint32_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kFloat32:
      return 4;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}

// A contiguous run of elements of one parameter. `data` may have any alignment and is only read.
struct Segment {
  std::uint32_t parameter = 0;
  std::uint64_t offset = 0;  // index in the parameter of the first element of this run
  const void* data = nullptr;
  std::uint64_t count = 0;  // elements
  DType dtype = DType::kFloat32;
};

inline constexpr std::uint32_t kMinSketchDim = 256;
inline constexpr std::uint32_t kMaxSketchDim = 65536;
inline constexpr std::uint32_t kDefaultSketchDim = 4096;

struct DigestOptions {
  std::uint32_t k = kDefaultSketchDim;  // sketch dimension: a power of two, kMinSketchDim to kMaxSketchDim
  std::uint64_t seed = 0;               // of the sketch; all ranks share it. The hash does not depend on it.
  std::uint32_t threads = 1;            // training owns the cores, so more is the caller's choice
  bool sketch = true;                   // false: the four scalars only, the sketch stays empty
};

// What is known of a set of elements. Additive: merging the digests of disjoint sets gives the digest of their union.
struct Digest {
  std::uint64_t count = 0;      // elements seen, non-finite ones included
  double sum_squares = 0;       // of the finite elements
  double max_abs = 0;           // of the finite elements
  std::uint64_t nonfinite = 0;  // NaN and infinities: counted, hashed, and left out of everything else
  std::uint64_t hash = 0;       // of the bits; adds modulo 2^64 over segments; all-zero bits contribute 0
  std::vector<double> sketch;   // k bins, or empty

  // Adds `other`, whose elements must be others than ours. Both sketches must have one dimension (or either be empty).
  LOCKSTEP_API void merge(const Digest& other);
};

// Checks k, threads: the Status names the option and what it may be.
LOCKSTEP_API Status validate(const DigestOptions& options);

// Accumulates segments into one digest. Owns its scratch, so that add() allocates nothing. One thread at a time.
// A segment with an invalid dtype is refused; nothing else can fail.
class LOCKSTEP_API DigestAccumulator {
 public:
  // `options` must have passed validate(); invalid ones are replaced by the defaults.
  explicit DigestAccumulator(const DigestOptions& options = {});
  ~DigestAccumulator();
  DigestAccumulator(DigestAccumulator&&) noexcept;
  DigestAccumulator& operator=(DigestAccumulator&&) noexcept;

  // Reads the segment once. False (and no change) when dtype is none of DType, or data is null with count > 0.
  bool add(const Segment& segment) noexcept;

  // The digest of everything added since the last reset.
  const Digest& result() noexcept;
  void reset() noexcept;
  const DigestOptions& options() const noexcept;

 private:
  struct State;
  State* state_;
};

// The digest of one list of segments.
LOCKSTEP_API Result<Digest> digest(std::span<const Segment> segments, const DigestOptions& options = {});

// The 64-bit content hash alone, at memory speed: for weights, buffers and optimizer state. Equal to Digest::hash.
LOCKSTEP_API std::uint64_t content_hash(const Segment& segment, std::uint32_t threads = 1) noexcept;

// The sketch of dimension `k` that the same elements would have had, from a larger one; k divides sketch.size().
// Exact up to rounding, because a bin of the small sketch is a sum of bins of the large one.
LOCKSTEP_API std::vector<double> fold_sketch(std::span<const double> sketch, std::uint32_t k);

// Name of the instruction set that the fast kernels use on this machine, e.g. "AVX3_DL".
LOCKSTEP_API const char* digest_isa() noexcept;

}  // namespace lockstep
