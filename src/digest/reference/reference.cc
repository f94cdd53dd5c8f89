#include "digest/reference/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "digest/keys.h"

namespace lockstep::digests::reference {
namespace {

std::uint64_t load_bits(const Segment& segment, std::uint64_t i) {
  const std::uint32_t size = size_of(segment.dtype);
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char*>(segment.data) + i * size, size);
  return bits;
}

// From the definition of IEEE binary16, so that no conversion instruction is trusted.
double half_value(std::uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = static_cast<double>(bits & 1023);
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

double value(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::kFloat32:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    case DType::kFloat64:
      return std::bit_cast<double>(bits);
    case DType::kBFloat16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16));
    case DType::kFloat16:
      return half_value(bits);
  }
  return 0;
}

// What one 32-bit word adds to the hash.
std::uint64_t word_share(std::uint64_t key, std::uint64_t word, std::uint32_t x) {
  const std::uint64_t p = word % kTileWords;
  const auto low = static_cast<std::int16_t>(x & 0xffff);
  const auto high = static_cast<std::int16_t>(x >> 16);
  std::uint64_t share = 0;
  for (std::uint32_t j = 0; j < kColumnSums; ++j) {
    const std::int64_t sum =
        std::int64_t{low} * kHashWeights.half[j][2 * p] + std::int64_t{high} * kHashWeights.half[j][2 * p + 1];
    share += static_cast<std::uint64_t>(sum) * static_cast<std::uint64_t>(kHashWeights.sum[j]);
  }
  return tile_weight(key, word / kTileWords) * kHashWeights.column[p % kColumns] * share;
}

std::uint64_t element_share(std::uint64_t key, DType dtype, std::uint64_t offset, std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits);
  switch (dtype) {
    case DType::kFloat32:
      return word_share(key, offset, low);
    case DType::kFloat64:
      return word_share(key, 2 * offset, low) + word_share(key, 2 * offset + 1, static_cast<std::uint32_t>(bits >> 32));
    case DType::kBFloat16:
    case DType::kFloat16:
      return word_share(key, offset / 2, low << (offset % 2 * 16));
  }
  return 0;
}

void add_to_sketch(std::vector<double>& sketch, const SketchKey& key, std::uint64_t offset, double x) {
  const std::uint64_t bin = (offset ^ block_displacement(key, offset / kBlockElements)) % sketch.size();
  const bool negative = (sign_word(key, offset / kSignGroup) >> (offset % kSignGroup) & 1) != 0;
  sketch[bin] += negative ? -x : x;
}

}  // namespace

Digest digest(std::span<const Segment> segments, const DigestOptions& options) {
  Digest out;
  if (options.sketch) out.sketch.assign(options.k, 0.0);
  for (const Segment& segment : segments) {
    const std::uint64_t key = hash_key(segment.parameter, segment.dtype);
    const SketchKey sketch = sketch_key(options.seed, segment.parameter);
    for (std::uint64_t i = 0; i < segment.count; ++i) {
      const std::uint64_t bits = load_bits(segment, i);
      out.hash += element_share(key, segment.dtype, segment.offset + i, bits);
      const double x = value(segment.dtype, bits);
      if (!std::isfinite(x)) {
        ++out.nonfinite;
        continue;
      }
      out.sum_squares += x * x;
      out.max_abs = std::fmax(out.max_abs, std::fabs(x));
      if (options.sketch) add_to_sketch(out.sketch, sketch, segment.offset + i, x);
    }
    out.count += segment.count;
  }
  return out;
}

}  // namespace lockstep::digests::reference
