// Where every pseudo-random choice of the digest comes from: hash weights, sketch buckets, sketch signs.
//
// Keys are functions of an element's identity (parameter, offset) alone, so any split, ISA, thread count or device
// makes the same choice. constexpr and free of std containers: the device kernels include this file too. The constants
// are part of the record format: changing one makes digests of two versions incomparable. docs/digest.md has the
// formulas.
#pragma once

#include <cstdint>

#include "lockstep/digest.h"

#if defined(__CUDACC__)
#define LOCKSTEP_KEYS_FN __host__ __device__ constexpr
#else
#define LOCKSTEP_KEYS_FN constexpr
#endif

namespace lockstep::digests {

inline constexpr std::uint32_t kTileWords = 256;  // 32-bit words that share one hash weight R_t
inline constexpr std::uint32_t kTileBytes = kTileWords * 4;
inline constexpr std::uint32_t kBlockElements = 256;  // elements that share one sketch displacement r_b
inline constexpr std::uint32_t kSignGroup = 64;       // elements whose signs are the bits of one 64-bit word

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio: splitmix64's increment
inline constexpr std::uint64_t kTableSalt = 0x6c6f636b73746570ull;
inline constexpr std::uint64_t kHashSalt = 0xd1b54a32d192ed03ull;
inline constexpr std::uint64_t kBucketSalt = 0x8cb92ba72f3d8dd7ull;
inline constexpr std::uint64_t kSignSalt = 0xaef17502108ef2d9ull;

// splitmix64's finaliser (Steele, Lea, Flood 2014; variant 13 of Stafford): a bijection with full avalanche.
LOCKSTEP_KEYS_FN std::uint64_t mix64(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Element `index` of the stream that starts at `key`.
LOCKSTEP_KEYS_FN std::uint64_t keyed(std::uint64_t key, std::uint64_t index) noexcept {
  return mix64(key + (index + 1) * kGolden);
}

// ---- Hash

inline constexpr std::uint32_t kColumns = 16;    // word p of a tile belongs to column p % 16
inline constexpr std::uint32_t kColumnSums = 4;  // weighted sums that are kept of each column

// Inside a tile the hash is made of weighted sums of signed 16-bit halves. A column has 32 halves, and weights below
// 2^11 keep its sums inside 32 bits, so they are exact integers: four of them hold a key of about 41 bits per half.
// They are joined with constants of 32 bits, and columns with constants of 64 bits. The first weight of a half is odd,
// its others are even and all constants are odd, therefore every half has an odd weight in the whole and no single-bit
// change can vanish.
struct HashWeights {
  std::int16_t half[kColumnSums][2 * kTileWords];  // in the order of memory: low half, high half, next word
  std::int32_t sum[kColumnSums];
  std::uint64_t column[kColumns];

  // The columns again as vectors take them, where even and odd lanes are multiplied apart.
  std::uint64_t even_column[kColumns / 2];
  std::uint64_t odd_column[kColumns / 2];
};

LOCKSTEP_KEYS_FN HashWeights make_hash_weights() noexcept {
  HashWeights weights{};
  for (std::uint32_t j = 0; j < kColumnSums; ++j) {
    const std::uint64_t key = keyed(kTableSalt, j);
    for (std::uint32_t i = 0; i < 2 * kTileWords; ++i) {
      const std::uint64_t random = keyed(key, i) >> 32;
      const auto odd = static_cast<std::int32_t>(random % 2048 * 2) - 2047;
      const auto even = static_cast<std::int32_t>((random >> 1) % 1023 * 2 + 2) * ((random & 1) != 0 ? -1 : 1);
      weights.half[j][i] = static_cast<std::int16_t>(j == 0 ? odd : even);
    }
    weights.sum[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(keyed(~key, 0) >> 32) | 1u);
  }
  for (std::uint32_t c = 0; c < kColumns; ++c) {
    weights.column[c] = keyed(~kTableSalt, c) | 1u;
    (c % 2 == 0 ? weights.even_column : weights.odd_column)[c / 2] = weights.column[c];
  }
  return weights;
}

alignas(64) inline constexpr HashWeights kHashWeights = make_hash_weights();

LOCKSTEP_KEYS_FN std::uint64_t hash_key(std::uint32_t parameter, DType dtype) noexcept {
  return keyed(keyed(kHashSalt, parameter), static_cast<std::uint64_t>(dtype));
}

// R_t, the odd weight of tile t.
LOCKSTEP_KEYS_FN std::uint64_t tile_weight(std::uint64_t hash_key, std::uint64_t tile) noexcept {
  return keyed(hash_key, tile) | 1u;
}

// ---- Sketch

// Of one parameter under one seed. The dtype is no part of it: a bf16 and an fp32 copy have comparable sketches.
struct SketchKey {
  std::uint64_t bucket;
  std::uint64_t sign;
};

LOCKSTEP_KEYS_FN SketchKey sketch_key(std::uint64_t seed, std::uint32_t parameter) noexcept {
  return {keyed(keyed(kBucketSalt, seed), parameter), keyed(keyed(kSignSalt, seed), parameter)};
}

// r_b: what the elements of a block XOR their offset with. The caller takes the low log2(k) bits.
LOCKSTEP_KEYS_FN std::uint32_t block_displacement(const SketchKey& key, std::uint64_t block) noexcept {
  return static_cast<std::uint32_t>(keyed(key.bucket, block));
}

// Bit i set: element 64 * group + i enters its bin negated.
LOCKSTEP_KEYS_FN std::uint64_t sign_word(const SketchKey& key, std::uint64_t group) noexcept {
  return keyed(key.sign, group);
}

}  // namespace lockstep::digests
