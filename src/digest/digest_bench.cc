#include "digest/digest_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "digest/plain_read.h"
#include "digest/reference/reference.h"
#include "digest/worker_pool.h"
#include "lockstep/digest.h"

namespace lockstep::digests {
namespace {

constexpr double kTarget = 0.85;
constexpr std::uint32_t kPrefetchDistances[] = {0, 512, 2048};  // the yardstick takes whichever is fastest here

// Small numbers in both readings of a word: two bf16, or one fp32.
std::vector<std::uint32_t> make_words(std::uint64_t bytes) {
  std::vector<std::uint32_t> words(bytes / 4);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.1f, 0.1f);
  for (std::uint32_t& word : words) {
    const float x[2] = {uniform(random), uniform(random)};
    std::uint32_t bits[2];
    std::memcpy(bits, x, sizeof(bits));
    word = (bits[1] & 0xffff0000u) | bits[0] >> 16;
  }
  return words;
}

Status check(Segment segment, std::uint32_t threads) {
  segment.count = std::min<std::uint64_t>(segment.count, 3'000'001);
  DigestOptions options;
  options.threads = threads;
  const auto actual = lockstep::digest({&segment, 1}, options);
  if (!actual) return actual.error();
  const Digest expected = reference::digest({&segment, 1}, options);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.sketch.size(); ++i) {
    difference += std::pow(actual->sketch[i] - expected.sketch[i], 2);
    norm += std::pow(expected.sketch[i], 2);
  }
  const bool same = actual->hash == expected.hash && content_hash(segment, threads) == expected.hash &&
                    actual->max_abs == expected.max_abs &&
                    std::fabs(actual->sum_squares / expected.sum_squares - 1) < 1e-6 && difference < 1e-12 * norm;
  if (same) return Status::ok();
  return {StatusCode::kInternal,
          fmt::format("bench: the digest of {} elements of dtype {} with {} threads on {} differs "
                      "from the reference; the tests of src/digest say where",
                      segment.count, static_cast<int>(segment.dtype), threads, digest_isa())};
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Best times of each of `works`, run in turn.
std::vector<double> race(const std::vector<std::function<void()>>& works, std::uint32_t rounds) {
  std::vector<double> best(works.size(), std::numeric_limits<double>::infinity());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) best[i] = std::min(best[i], seconds(works[i]));
  }
  return best;
}

// The plain read by `threads` threads, each its contiguous part.
struct PlainRead {
  Segment segment;
  std::uint32_t threads;
  std::uint32_t prefetch_bytes;
  WorkerPool& pool;
  double sums[2] = {};

  void operator()() {
    pool.run(
        threads,
        [](void* context, std::uint32_t share) noexcept {
          auto& self = *static_cast<PlainRead*>(context);
          Segment part = self.segment;
          part.count = self.segment.count / self.threads;
          part.data = static_cast<const unsigned char*>(part.data) + share * part.count * size_of(part.dtype);
          self.sums[share] = plain_sum_squares(part, self.prefetch_bytes);
        },
        this);
  }
};

// Speeds of plain read, digest and (single-threaded) hash, as rows.
void measure(const Segment& segment, const char* name, std::uint32_t threads, std::uint32_t rounds,
             std::vector<base::BenchRow>& rows) {
  WorkerPool pool(threads);
  DigestOptions digest_options;
  digest_options.threads = threads;
  DigestAccumulator accumulator(digest_options);
  volatile std::uint64_t hash = 0;
  std::vector<std::function<void()>> works;
  for (const std::uint32_t distance : kPrefetchDistances) works.push_back(PlainRead{segment, threads, distance, pool});
  works.push_back([&] { accumulator.add(segment); });
  const bool with_hash = threads == 1 && segment.dtype == DType::kFloat32;
  if (with_hash) works.push_back([&] { hash = content_hash(segment); });
  const std::vector<double> best = race(works, rounds);

  const std::size_t digest_at = std::size(kPrefetchDistances);
  const double plain = *std::min_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(digest_at));
  const double gigabytes = static_cast<double>(segment.count * size_of(segment.dtype)) / 1e9;
  const std::string suffix = fmt::format("{}_{}t", name, threads);
  rows.push_back({"digest." + suffix, plain / best[digest_at], "x plain read", true, kTarget});
  if (with_hash)
    rows.push_back({"digest.hash_only_" + suffix, plain / best[digest_at + 1], "x plain read", true, std::nullopt});
  rows.push_back({"digest.plain_read_" + suffix + "_speed", gigabytes / plain, "GB/s", true, std::nullopt});
  rows.push_back({"digest." + suffix + "_speed", gigabytes / best[digest_at], "GB/s", true, std::nullopt});
}

}  // namespace

Result<std::vector<base::BenchRow>> run_digest_bench(const BenchOptions& options) {
  const std::vector<std::uint32_t> words = make_words(options.bytes);
  std::vector<base::BenchRow> rows;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Segment segment{1, 0, words.data(), words.size() * 4 / size_of(dtype), dtype};
    for (const std::uint32_t threads : {1u, 2u}) {
      if (Status status = check(segment, threads); !status) return status;
      measure(segment, dtype == DType::kFloat32 ? "fp32" : "bf16", threads, options.rounds, rows);
    }
  }
  return rows;
}

}  // namespace lockstep::digests
