// What the tests of this folder share: vectors of every dtype, every instruction set, and comparison with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <hwy/targets.h>

#include "digest/cpu/kernels.h"
#include "lockstep/digest.h"

namespace lockstep::digests {

inline constexpr DType kAllDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};

// Encodes into `dtype`; 16-bit formats by truncation, which is all that test data need.
inline void append(std::vector<unsigned char>& bytes, DType dtype, double x) {
  const auto put = [&](const auto& value) {
    const auto* p = reinterpret_cast<const unsigned char*>(&value);
    bytes.insert(bytes.end(), p, p + sizeof(value));
  };
  const auto narrow = static_cast<float>(x);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof(bits));
  switch (dtype) {
    case DType::kFloat32:
      return put(narrow);
    case DType::kFloat64:
      return put(x);
    case DType::kBFloat16:
      return put(static_cast<std::uint16_t>(bits >> 16));
    case DType::kFloat16: {
      if (!std::isfinite(x) || std::fabs(x) >= 65536) {
        return put(static_cast<std::uint16_t>((bits >> 16 & 0x8000) | (std::isnan(x) ? 0x7e01 : 0x7c00)));
      }
      const float scaled = std::fabs(narrow) * 0x1p-112f;  // the inverse of the kernels' trick
      std::uint32_t fields;
      std::memcpy(&fields, &scaled, sizeof(fields));
      return put(static_cast<std::uint16_t>((bits >> 16 & 0x8000) | fields >> 13));
    }
  }
}

template <class Generator>
std::vector<unsigned char> encode(DType dtype, std::size_t count, Generator&& next) {
  std::vector<unsigned char> bytes;
  bytes.reserve(count * size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) append(bytes, dtype, next());
  return bytes;
}

inline Segment segment_of(const std::vector<unsigned char>& bytes, DType dtype, std::uint64_t offset = 0,
                          std::uint32_t parameter = 0) {
  return {parameter, offset, bytes.data(), bytes.size() / size_of(dtype), dtype};
}

inline double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

inline constexpr double kTolerance = 1e-6;  // the contract for sums and sketches

// Integers and the maximum exactly; sums and sketch to the contract.
inline void expect_same(const Digest& actual, const Digest& expected, const std::string& what) {
  EXPECT_EQ(actual.count, expected.count) << what;
  EXPECT_EQ(actual.hash, expected.hash) << what;
  EXPECT_EQ(actual.nonfinite, expected.nonfinite) << what;
  EXPECT_EQ(actual.max_abs, expected.max_abs) << what;
  EXPECT_LE(std::fabs(actual.sum_squares - expected.sum_squares), kTolerance * expected.sum_squares) << what;
  EXPECT_LE(relative_distance(actual.sketch, expected.sketch), kTolerance) << what;
}

// Runs `body(name)` once per instruction set that was built and that this machine has.
template <class Body>
void for_each_isa(const Body& body) {
  const std::int64_t supported = hwy::SupportedTargets();
  int seen = 0;
  std::string last;
  for (std::int64_t left = supported; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    const std::string name = cpu::isa_name();
    if (name != last) body(name), ++seen;  // a target that was not built runs as the baseline
    last = name;
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(seen, 1);
}

}  // namespace lockstep::digests
