// What the content hash must see. Guarantees are tested exhaustively on the weights; the rest as birthday sets.
#include <algorithm>
#include <cstdlib>

#include "digest/keys.h"
#include "digest/test_data.h"

namespace lockstep::digests {
namespace {

std::uint64_t hash_of(const std::vector<unsigned char>& bytes, DType dtype = DType::kFloat32,
                      std::uint64_t offset = 0) {
  return content_hash(segment_of(bytes, dtype, offset, 1));
}

TEST(Hash, ZeroBitsAddNothing) {
  for (const DType dtype : kAllDTypes) EXPECT_EQ(hash_of(std::vector<unsigned char>(8000), dtype), 0u);
}

TEST(Hash, SignOfZeroAndNanPayloadAreContent) {
  const std::uint32_t patterns[] = {0x00000000, 0x80000000, 0x7fc00000, 0x7fc00001, 0xffc00000, 0x7f800000, 0xff800000};
  std::vector<std::uint64_t> hashes;
  for (const std::uint32_t pattern : patterns) hashes.push_back(content_hash({0, 5, &pattern, 1, DType::kFloat32}));
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
}

TEST(Hash, ParameterDtypeAndOffsetAreContent) {
  const std::vector<unsigned char> bytes(4096, 0x3c);
  const std::uint64_t hash = content_hash({1, 0, bytes.data(), 1024, DType::kFloat32});
  EXPECT_NE(hash, content_hash({2, 0, bytes.data(), 1024, DType::kFloat32}));
  EXPECT_NE(hash, content_hash({1, 256, bytes.data(), 1024, DType::kFloat32}));
  EXPECT_NE(hash, content_hash({1, 1, bytes.data(), 1024, DType::kFloat32}));
  EXPECT_NE(hash, content_hash({1, 0, bytes.data(), 512, DType::kFloat64}));
  EXPECT_NE(content_hash({1, 0, bytes.data(), 2048, DType::kBFloat16}),
            content_hash({1, 0, bytes.data(), 2048, DType::kFloat16}));
}

// Changes of any two halves of one column are visible in its sums, whatever the data: two-by-two determinants of the
// weights do not vanish. The same for a swap of two words, which changes both halves of each by opposite amounts.
TEST(Hash, NoTwoHalvesOfAColumnCancel) {
  const auto& w = kHashWeights.half;
  for (std::uint32_t c = 0; c < kColumns; ++c) {
    for (std::uint32_t a = c; a < kTileWords; a += kColumns) {
      for (std::uint32_t b = a; b < kTileWords; b += kColumns) {
        for (const std::uint32_t i : {2 * a, 2 * a + 1}) {
          for (const std::uint32_t j : {2 * b, 2 * b + 1}) {
            if (i == j) continue;
            EXPECT_FALSE(w[0][i] * w[1][j] == w[0][j] * w[1][i] && w[0][i] * w[2][j] == w[0][j] * w[2][i]);
          }
        }
        if (a == b) continue;
        int low[3], high[3];
        for (int s = 0; s < 3; ++s) {
          low[s] = w[s][2 * a] - w[s][2 * b];
          high[s] = w[s][2 * a + 1] - w[s][2 * b + 1];
        }
        EXPECT_FALSE(low[0] * high[1] == low[1] * high[0] && low[0] * high[2] == low[2] * high[0]) << a << " " << b;
      }
    }
  }
}

TEST(Hash, WeightsKeepColumnSumsInside32Bits) {
  for (std::uint32_t j = 0; j < kColumnSums; ++j) {
    for (std::uint32_t i = 0; i < 2 * kTileWords; ++i) {
      const int weight = kHashWeights.half[j][i];
      EXPECT_LE(std::abs(weight), 2047);
      EXPECT_EQ(weight & 1, j == 0 ? 1 : 0);
      EXPECT_NE(weight, 0);
    }
  }
}

TEST(Hash, EverySingleBitChangeIsSeen) {
  std::mt19937_64 random(21);
  for (const DType dtype : kAllDTypes) {
    auto bytes = encode(dtype, 700, [&] { return std::normal_distribution<double>()(random); });
    const std::uint64_t hash = hash_of(bytes, dtype);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
      EXPECT_NE(hash_of(bytes, dtype), hash) << "bit " << bit;
      bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
    }
  }
}

// One structured change of `bytes` (elements of `size` bytes).
void mutate(std::vector<unsigned char>& bytes, std::size_t size, std::mt19937_64& random) {
  const std::size_t count = bytes.size() / size;
  const auto element = [&](std::size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(i * size); };
  const std::size_t i = random() % count;
  switch (random() % 8) {
    case 0:  // one bit
      bytes[random() % bytes.size()] ^= static_cast<unsigned char>(1u << random() % 8);
      break;
    case 1:  // two top bits: signs of two elements
      bytes[i * size + size - 1] ^= 0x80;
      bytes[random() % count * size + size - 1] ^= 0x80;
      break;
    case 2:  // swap of two elements
      std::swap_ranges(element(i), element(i) + static_cast<std::ptrdiff_t>(size), element(random() % count));
      break;
    case 3: {  // swap at a distance of a power of two
      const std::size_t j = i ^ (std::size_t{1} << random() % 9);
      if (j < count) std::swap_ranges(element(i), element(i) + static_cast<std::ptrdiff_t>(size), element(j));
      break;
    }
    case 4:  // rotation of a range by one
      std::rotate(element(i), element(i) + static_cast<std::ptrdiff_t>(size), element(i + 1 + random() % (count - i)));
      break;
    case 5: {  // zeroing of a range
      std::fill(element(i), element(i + 1 + random() % (count - i)), 0);
      break;
    }
    case 6:  // the same unit added to two elements far apart
      bytes[i * size] += 1;
      bytes[random() % count * size] -= 1;
      break;
    default:  // reversal of a range of elements' bytes
      std::reverse(element(i), element(i + 1 + random() % (count - i)));
  }
}

// Equal hashes must mean equal bytes. Duplicates of bytes (the same mutation twice) are no collisions, so they are told
// apart by a second, unrelated hash.
void expect_no_collision(std::size_t trials) {
  const unsigned seed = 22;
  std::printf("seed %u, %zu trials\n", seed, trials);
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  seen.reserve(trials);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::size_t size = size_of(dtype);
    const auto original = encode(dtype, 600, [&] {
      return random() % 4 == 0 ? 0.0 : std::normal_distribution<double>(0, 0.01)(random);  // with runs that repeat
    });
    seen.clear();
    for (std::size_t trial = 0; trial < trials / 2; ++trial) {
      auto bytes = original;
      for (auto n = random() % 2; n <= 1; ++n) mutate(bytes, size, random);
      const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      seen.emplace_back(hash_of(bytes, dtype), std::hash<std::string_view>()(view));
    }
    std::sort(seen.begin(), seen.end());
    std::size_t collisions = 0;
    for (std::size_t i = 1; i < seen.size(); ++i) {
      collisions += seen[i].first == seen[i - 1].first && seen[i].second != seen[i - 1].second;
    }
    EXPECT_EQ(collisions, 0u) << "dtype " << int(dtype);
  }
}

// Changes of two or three bits, all of them inside one tile: here only the weights inside a tile keep them apart. In
// `stride` words only every 16th is touched, so that all changes fall into one column.
void expect_tile_changes_apart(std::size_t trials, std::size_t stride) {
  const unsigned seed = 23;
  std::printf("seed %u, %zu trials, stride %zu\n", seed, trials, stride);
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> words(kTileWords);
  for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
  const Segment segment{3, 0, words.data(), words.size(), DType::kFloat32};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;  // hash, the change
  for (std::size_t trial = 0; trial < trials; ++trial) {
    std::vector<std::uint64_t> bits(2 + random() % 2);
    for (auto& bit : bits) bit = random() % (kTileWords / stride) * stride * 32 + random() % 32;
    std::sort(bits.begin(), bits.end());
    if (std::adjacent_find(bits.begin(), bits.end()) != bits.end()) continue;
    const auto flip = [&] {
      for (const std::uint64_t bit : bits) words[bit / 32] ^= 1u << bit % 32;
    };
    flip();
    seen.emplace_back(content_hash(segment), (bits[0] << 32 | bits[1] << 16) + (bits.size() == 3 ? bits[2] + 1 : 0));
    flip();
  }
  std::sort(seen.begin(), seen.end());
  std::size_t collisions = 0;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    collisions += seen[i].first == seen[i - 1].first && seen[i].second != seen[i - 1].second;
  }
  EXPECT_EQ(collisions, 0u);
}

TEST(Hash, ChangesOfFewBitsInOneTileDoNotCollide) {
  expect_tile_changes_apart(500'000, 1);
  expect_tile_changes_apart(500'000, kColumns);
}

TEST(HashSlow, TenMillionChangesOfFewBitsInOneTileDoNotCollide) {
  expect_tile_changes_apart(10'000'000, 1);
  expect_tile_changes_apart(10'000'000, kColumns);
}

TEST(Hash, StructuredChangesDoNotCollide) {
  expect_no_collision(200'000);
}

TEST(HashSlow, TenMillionStructuredChangesDoNotCollide) {
  expect_no_collision(10'000'000);
}

}  // namespace
}  // namespace lockstep::digests
