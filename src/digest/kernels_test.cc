// The fast kernels against the oracle: every instruction set, dtype, misalignment, length and offset.
#include <xmmintrin.h>

#include <fmt/format.h>

#include "digest/reference/reference.h"
#include "digest/test_data.h"

namespace lockstep::digests {
namespace {

const DigestOptions kOptions{.k = 1024, .seed = 77};

// Copied to an address that is `misalignment` bytes from a multiple of 64.
struct Misaligned {
  std::vector<unsigned char> storage;
  Segment segment;

  Misaligned(const std::vector<unsigned char>& bytes, Segment source, std::size_t misalignment)
      : storage(bytes.size() + 128), segment(source) {
    const auto base = reinterpret_cast<std::uintptr_t>(storage.data());
    unsigned char* p = storage.data() + (64 - base % 64) + misalignment;
    std::memcpy(p, bytes.data(), bytes.size());
    segment.data = p;
  }
};

void expect_matches_oracle(const Segment& segment, const DigestOptions& options, const std::string& what) {
  const auto actual = digest({&segment, 1}, options);
  ASSERT_TRUE(actual.has_value()) << actual.error().message();
  expect_same(*actual, reference::digest({&segment, 1}, options), what);
  EXPECT_EQ(content_hash(segment), actual->hash) << what;
}

TEST(Kernels, MachineHasVectorsAndEveryIsaIsTested) {
  std::vector<std::string> names;
  for_each_isa([&](const std::string& name) { names.push_back(name); });
  std::string joined;
  for (const auto& name : names) joined += name + " ";
  std::printf("instruction sets tested: %s(default %s)\n", joined.c_str(), digest_isa());
  EXPECT_EQ(std::find(names.begin(), names.end(), "Unknown"), names.end());
}

TEST(Kernels, EveryLengthMatchesOracle) {
  constexpr unsigned kSeed = 1;
  for_each_isa([&](const std::string& isa) {
    for (const DType dtype : kAllDTypes) {
      std::mt19937 random(kSeed);
      std::normal_distribution<double> normal(0, 0.01);
      const auto bytes = encode(dtype, 600, [&] { return normal(random); });
      for (std::uint64_t count = 0; count <= 600; ++count) {
        Segment segment = segment_of(bytes, dtype, 0, 3);
        segment.count = count;
        expect_matches_oracle(segment, kOptions, fmt::format("{} dtype {} count {}", isa, int(dtype), count));
        if (HasFailure()) return;
      }
    }
  });
}

TEST(Kernels, AnyOffsetAndAlignmentMatchesOracle) {
  constexpr unsigned kSeed = 2;
  std::printf("seed %u\n", kSeed);
  for_each_isa([&](const std::string& isa) {
    std::mt19937_64 random(kSeed);
    std::normal_distribution<double> normal;
    for (const DType dtype : kAllDTypes) {
      for (int trial = 0; trial < 120; ++trial) {
        const std::size_t count = random() % (trial % 10 == 0 ? 40000 : 1500);
        const std::uint64_t offset = trial % 4 == 0 ? random() % 700 : random() >> (random() % 44 + 8);
        const auto bytes = encode(dtype, count, [&] { return normal(random); });
        const Misaligned data(bytes, segment_of(bytes, dtype, offset, static_cast<std::uint32_t>(random())),
                              random() % 64);
        DigestOptions options{.k = 256u << random() % 9, .seed = random()};
        expect_matches_oracle(
            data.segment, options,
            fmt::format("{} dtype {} trial {} count {} offset {}", isa, int(dtype), trial, count, offset));
        if (HasFailure()) return;
      }
    }
  });
}

// Values whose squares leave fp32, NaN and infinities, all in random places: the careful path beside the fast one.
TEST(Kernels, ExtremeAndNonFiniteValuesMatchOracle) {
  constexpr unsigned kSeed = 3;
  std::printf("seed %u\n", kSeed);
  const double scales[] = {0, 1e-45, 1e-40, 1e-38, 1e-30, 1e-20, 1e-17, 1e-10, 1, 1e4, 1e17, 1e18, 1e20, 1e30, 3e38};
  for_each_isa([&](const std::string& isa) {
    std::mt19937_64 random(kSeed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (const DType dtype : kAllDTypes) {
      for (const double scale : scales) {
        for (const int nonfinite_in : {0, 3000, 20}) {
          const auto bytes = encode(dtype, 6000, [&] {
            if (nonfinite_in != 0 && random() % nonfinite_in == 0) return random() % 2 ? HUGE_VAL : std::nan("");
            return uniform(random) * scale;
          });
          expect_matches_oracle(segment_of(bytes, dtype, 100, 9), kOptions,
                                fmt::format("{} dtype {} scale {} nonfinite {}", isa, int(dtype), scale, nonfinite_in));
          if (HasFailure()) return;
        }
      }
    }
  });
}

TEST(Kernels, MixedScalesInOneTileKeepPrecision) {
  for_each_isa([&](const std::string& isa) {
    std::mt19937_64 random(4);
    std::uniform_real_distribution<double> exponent(-37, 37);
    const auto bytes = encode(DType::kFloat32, 50000, [&] { return std::pow(10.0, exponent(random)); });
    expect_matches_oracle(segment_of(bytes, DType::kFloat32), kOptions, isa);
  });
}

// The bins must be emptied often enough, also when every addition rounds the same way.
TEST(Kernels, LongConstantRunsKeepPrecision) {
  for (const DType dtype : kAllDTypes) {
    for (const double value : {0.1, 1.0 / 3, 1.0}) {
      const auto bytes = encode(dtype, 3'000'000, [&] { return value; });
      expect_matches_oracle(segment_of(bytes, dtype), {.k = 256}, fmt::format("dtype {} value {}", int(dtype), value));
    }
  }
}

TEST(Kernels, NoSketchGivesTheSameScalars) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const DType dtype : kAllDTypes) {
    const auto bytes = encode(dtype, 10000, [&] { return normal(random); });
    const Segment segment = segment_of(bytes, dtype, 17);
    DigestOptions options;
    options.sketch = false;
    const auto actual = digest({&segment, 1}, options);
    ASSERT_TRUE(actual.has_value());
    expect_same(*actual, reference::digest({&segment, 1}, options), "no sketch");
    EXPECT_TRUE(actual->sketch.empty());
  }
}

TEST(Kernels, FlushToZeroModeOfTheHostChangesNothing) {
  const auto bytes = encode(DType::kFloat32, 5000, [i = 0]() mutable { return ++i * 1e-42; });
  const Segment segment = segment_of(bytes, DType::kFloat32);
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
  DigestAccumulator accumulator(kOptions);
  accumulator.add(segment);
  const Digest actual = accumulator.result();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  EXPECT_EQ(after & 0x8040, 0x8040u) << "the host's mode was not restored";
  expect_same(actual, reference::digest({&segment, 1}, kOptions), "flush to zero");
}

}  // namespace
}  // namespace lockstep::digests
