// The public contract: additivity over any split, order and thread count; options; refusals; fold and merge.
#include "lockstep/digest.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "digest/reference/reference.h"
#include "digest/test_data.h"

namespace lockstep::digests {
namespace {

// Several parameters of several dtypes, with some special values.
struct Gradient {
  std::vector<std::vector<unsigned char>> data;
  std::vector<Segment> segments;

  explicit Gradient(std::mt19937_64& random, std::size_t parameters = 9, std::size_t longest = 20000) {
    std::normal_distribution<double> normal;
    for (std::uint32_t i = 0; i < parameters; ++i) {
      const DType dtype = kAllDTypes[i % 4];
      data.push_back(encode(dtype, random() % longest, [&] {
        const auto pick = random() % 5000;
        return pick == 0 ? std::nan("") : pick == 1 ? HUGE_VAL : pick == 2 ? -0.0 : normal(random);
      }));
      segments.push_back(segment_of(data.back(), dtype, 0, i));
    }
  }
};

// Cuts every segment at random places and shuffles the pieces.
std::vector<Segment> split(const std::vector<Segment>& segments, std::mt19937_64& random) {
  std::vector<Segment> pieces;
  for (const Segment& segment : segments) {
    std::uint64_t done = 0;
    do {
      Segment piece = segment;
      piece.offset = segment.offset + done;
      piece.data = static_cast<const unsigned char*>(segment.data) + done * size_of(segment.dtype);
      piece.count = std::min<std::uint64_t>(random() % (random() % 3 == 0 ? 5 : 4000), segment.count - done);
      pieces.push_back(piece);
      done += piece.count;
    } while (done < segment.count);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

TEST(Digest, AnySplitAndOrderGivesTheSameDigest) {
  constexpr unsigned kSeed = 11;
  std::printf("seed %u\n", kSeed);
  std::mt19937_64 random(kSeed);
  const Gradient gradient(random);
  const DigestOptions options{.k = 512, .seed = 5};
  const Digest expected = reference::digest(gradient.segments, options);
  EXPECT_GT(expected.nonfinite, 0u);
  for (int trial = 0; trial < 20; ++trial) {
    const auto actual = digest(split(gradient.segments, random), options);
    ASSERT_TRUE(actual.has_value());
    expect_same(*actual, expected, "trial " + std::to_string(trial));
  }
}

TEST(Digest, AnyThreadCountGivesTheSameDigest) {
  std::mt19937_64 random(12);
  const Gradient gradient(random, 4, 3'000'000);
  const DigestOptions one{.k = 4096, .seed = 5};
  const Digest expected = reference::digest(gradient.segments, one);
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
    DigestOptions options = one;
    options.threads = threads;
    const auto actual = digest(gradient.segments, options);
    ASSERT_TRUE(actual.has_value());
    expect_same(*actual, expected, std::to_string(threads) + " threads");
    std::uint64_t hash = 0;
    for (const Segment& segment : gradient.segments) hash += content_hash(segment, threads);
    EXPECT_EQ(hash, expected.hash) << threads << " threads";
  }
}

TEST(Digest, SameThreadCountGivesTheSameBits) {
  std::mt19937_64 random(13);
  const Gradient gradient(random, 2, 3'000'000);
  const DigestOptions options{.threads = 3};
  const auto first = digest(gradient.segments, options);
  const auto second = digest(gradient.segments, options);
  EXPECT_EQ(first->sum_squares, second->sum_squares);
  EXPECT_EQ(first->sketch, second->sketch);
}

TEST(Digest, AccumulatorCanBeReadResetAndMoved) {
  std::mt19937_64 random(14);
  const Gradient gradient(random);
  DigestAccumulator accumulator({.k = 256, .threads = 2});
  for (const Segment& segment : gradient.segments) {
    EXPECT_TRUE(accumulator.add(segment));
    accumulator.result();  // reading in between changes nothing
  }
  DigestAccumulator moved = std::move(accumulator);
  expect_same(moved.result(), reference::digest(gradient.segments, {.k = 256}), "moved");
  moved.reset();
  expect_same(moved.result(), reference::digest({}, {.k = 256}), "reset");
  moved.add(gradient.segments[0]);
  expect_same(moved.result(), reference::digest({gradient.segments.data(), 1}, {.k = 256}), "reused");
}

TEST(Digest, MergeEqualsDigestOfTheUnion) {
  std::mt19937_64 random(15);
  const Gradient gradient(random);
  Digest merged;
  for (const Segment& segment : gradient.segments) merged.merge(*digest({&segment, 1}));
  expect_same(merged, reference::digest(gradient.segments, {}), "merged");
}

TEST(Digest, FoldEqualsTheSmallerSketch) {
  std::mt19937_64 random(16);
  const Gradient gradient(random);
  const auto large = digest(gradient.segments, {.k = 65536, .seed = 3});
  for (const std::uint32_t k : {65536u, 4096u, 512u, 256u}) {
    const auto small = digest(gradient.segments, {.k = k, .seed = 3});
    EXPECT_LE(relative_distance(fold_sketch(large->sketch, k), small->sketch), kTolerance) << k;
  }
  EXPECT_TRUE(fold_sketch(large->sketch, 0).empty());
  EXPECT_TRUE(fold_sketch(large->sketch, 65537).empty());
}

TEST(Digest, SeedChangesTheSketchAndNotTheHash) {
  std::mt19937_64 random(17);
  const Gradient gradient(random);
  const auto a = digest(gradient.segments, {.seed = 1});
  const auto b = digest(gradient.segments, {.k = 256, .seed = 2});
  EXPECT_EQ(a->hash, b->hash);
  EXPECT_GT(relative_distance(fold_sketch(a->sketch, 256), b->sketch), 0.5);
}

TEST(Digest, InvalidOptionsAreNamed) {
  EXPECT_NE(validate({.k = 1000}).message().find("k is 1000"), std::string::npos);
  EXPECT_FALSE(validate({.k = 128}));
  EXPECT_FALSE(validate({.k = 131072}));
  EXPECT_NE(validate({.threads = 0}).message().find("threads is 0"), std::string::npos);
  EXPECT_TRUE(validate({.k = 256}));
  EXPECT_TRUE(validate({.k = 65536, .threads = 2}));
  EXPECT_FALSE(digest({}, {.k = 3}).has_value());
  EXPECT_EQ(DigestAccumulator({.k = 3}).options().k, kDefaultSketchDim);
}

TEST(Digest, BadSegmentsAreRefusedWithoutChange) {
  DigestAccumulator accumulator;
  const float x = 1;
  EXPECT_FALSE(accumulator.add({0, 0, &x, 1, static_cast<DType>(9)}));
  EXPECT_FALSE(accumulator.add({0, 0, nullptr, 1, DType::kFloat32}));
  EXPECT_TRUE(accumulator.add({0, 0, nullptr, 0, DType::kFloat32}));
  EXPECT_EQ(accumulator.result().count, 0u);
  EXPECT_EQ(content_hash({0, 0, nullptr, 1, DType::kFloat32}), 0u);
  const Segment bad{4, 0, &x, 1, static_cast<DType>(9)};
  EXPECT_NE(digest({&bad, 1}).error().message().find("parameter 4"), std::string::npos);
}

// A data loader may fork a process that holds an accumulator; the threads do not follow it.
TEST(Digest, ForkedChildWorksWithoutTheThreads) {
  std::mt19937_64 random(18);
  const Gradient gradient(random, 1, 3'000'000);
  auto accumulator = std::make_unique<DigestAccumulator>(DigestOptions{.threads = 4});
  accumulator->add(gradient.segments[0]);
  const std::uint64_t hash = accumulator->result().hash;
  const pid_t child = fork();
  if (child == 0) {
    accumulator->reset();
    accumulator->add(gradient.segments[0]);
    const bool same = accumulator->result().hash == hash;
    accumulator.reset();
    _exit(same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace lockstep::digests
