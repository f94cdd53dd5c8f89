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

// The odd weights inside a tile. T multiplies the word, U the word rotated by half: the bits that sit high in one
// product sit low in the other.
struct TileWeights {
  std::uint32_t t[kTileWords];
  std::uint32_t u[kTileWords];
};

LOCKSTEP_KEYS_FN TileWeights make_tile_weights() noexcept {
  TileWeights weights{};
  for (std::uint32_t p = 0; p < kTileWords; ++p) {
    weights.t[p] = static_cast<std::uint32_t>(keyed(kTableSalt, 2 * p) >> 32) | 1u;
    weights.u[p] = static_cast<std::uint32_t>(keyed(kTableSalt, 2 * p + 1) >> 32) | 1u;
  }
  return weights;
}

inline constexpr TileWeights kTileWeights = make_tile_weights();

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
