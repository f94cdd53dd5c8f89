#include "digest/cpu/careful.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "digest/keys.h"

namespace lockstep::digests::cpu {
namespace {

template <class Bits>
Bits load_bits(const unsigned char* data) noexcept {
  Bits bits;
  std::memcpy(&bits, data, sizeof(bits));
  return bits;
}

struct Float32 {
  static constexpr std::uint64_t kBytes = 4;
  static double load(const unsigned char* data) noexcept {
    return std::bit_cast<float>(load_bits<std::uint32_t>(data));
  }
};

struct Float64 {
  static constexpr std::uint64_t kBytes = 8;
  static double load(const unsigned char* data) noexcept {
    return std::bit_cast<double>(load_bits<std::uint64_t>(data));
  }
};

struct BFloat16 {
  static constexpr std::uint64_t kBytes = 2;
  static double load(const unsigned char* data) noexcept {
    return std::bit_cast<float>(std::uint32_t{load_bits<std::uint16_t>(data)} << 16);
  }
};

struct Float16 {
  static constexpr std::uint64_t kBytes = 2;
  static double load(const unsigned char* data) noexcept {
    const std::uint32_t bits = load_bits<std::uint16_t>(data);
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    // Read the fields as those of an fp32 number, then mend the bias of the exponent: exact for denormals too.
    const float unbiased = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(unbiased));
  }
};

template <class Element>
void add(const unsigned char* data, std::uint32_t parameter, std::uint64_t first, std::uint64_t count,
         Lane& lane) noexcept {
  const SketchKey key = sketch_key(lane.seed, parameter);
  const std::uint32_t mask = lane.k - 1;
  double sum_squares = 0;
  double max_abs = lane.max_abs;
  std::uint64_t offset = first;
  const std::uint64_t end = first + count;
  while (offset < end) {  // one turn per sign word
    const std::uint64_t group_end = std::min<std::uint64_t>((offset / kSignGroup + 1) * kSignGroup, end);
    const std::uint64_t signs = sign_word(key, offset / kSignGroup);
    const std::uint32_t displacement = block_displacement(key, offset / kBlockElements);
    for (; offset < group_end; ++offset, data += Element::kBytes) {
      const double x = Element::load(data);
      const double magnitude = std::fabs(x);
      if (!(magnitude <= 0x1.fffffffffffffp1023)) {
        ++lane.nonfinite;
        continue;
      }
      sum_squares += x * x;
      max_abs = magnitude > max_abs ? magnitude : max_abs;
      if (lane.k == 0) continue;
      const std::uint32_t bin = (static_cast<std::uint32_t>(offset) ^ displacement) & mask;
      lane.wide[bin] += (signs >> (offset % kSignGroup) & 1) != 0 ? -x : x;
    }
  }
  lane.sum_squares += sum_squares;
  lane.max_abs = max_abs;
}

}  // namespace

void add_carefully(DType dtype, const unsigned char* data, std::uint32_t parameter, std::uint64_t first,
                   std::uint64_t count, Lane& lane) noexcept {
  switch (dtype) {
    case DType::kFloat32:
      return add<Float32>(data, parameter, first, count, lane);
    case DType::kFloat64:
      return add<Float64>(data, parameter, first, count, lane);
    case DType::kBFloat16:
      return add<BFloat16>(data, parameter, first, count, lane);
    case DType::kFloat16:
      return add<Float16>(data, parameter, first, count, lane);
  }
}

}  // namespace lockstep::digests::cpu
