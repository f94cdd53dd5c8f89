#include "train/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "train/sampler.h"

namespace lockstep::train {

const char* to_string(SeedSetting setting) noexcept {
  switch (setting) {
    case SeedSetting::kS1_1:
      return "s1-1";
    case SeedSetting::kS1_2:
      return "s1-2";
    case SeedSetting::kS1_3:
      return "s1-3";
  }
  return "unknown";
}

const char* to_string(Reading reading) noexcept {
  return reading == Reading::kSharded ? "sharded" : "replicated";
}

Result<SeedSetting> parse_seed_setting(std::string_view name) {
  for (SeedSetting setting : {SeedSetting::kS1_1, SeedSetting::kS1_2, SeedSetting::kS1_3}) {
    if (name == to_string(setting)) return setting;
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("unknown seed setting '{}': s1-1, s1-2 or s1-3", name));
}

Result<Reading> parse_reading(std::string_view name) {
  if (name == "sharded") return Reading::kSharded;
  if (name == "replicated") return Reading::kReplicated;
  return Status(StatusCode::kInvalidArgument, fmt::format("unknown reading '{}': sharded or replicated", name));
}

std::vector<std::uint64_t> rank_seeds(SeedSetting setting, std::uint32_t world, std::uint64_t base) {
  std::vector<std::uint64_t> seeds(world, base);
  if (setting == SeedSetting::kS1_2 && world > 0) seeds[0] = base + 999;
  if (setting == SeedSetting::kS1_3) {
    for (std::uint32_t rank = 0; rank < world; ++rank) seeds[rank] = base + 10ULL * rank;
  }
  return seeds;
}

Result<std::vector<std::int64_t>> rank_order(Reading reading, std::int64_t samples, std::uint32_t world,
                                             std::uint32_t rank, std::uint64_t seed, std::uint64_t epoch,
                                             bool drop_last) {
  if (reading == Reading::kReplicated) return random_order(samples, seed, epoch);
  DistributedSamplerOptions options;
  options.samples = samples;
  options.replicas = world;
  options.rank = rank;
  options.seed = seed;
  options.epoch = epoch;
  options.drop_last = drop_last;
  return distributed_order(options);
}

Result<CoverageStats> measure_coverage(std::int64_t samples, std::span<const std::span<const std::int64_t>> orders) {
  const std::size_t n = samples < 0 ? 0 : static_cast<std::size_t>(samples);
  std::vector<std::vector<std::uint8_t>> read(orders.size(), std::vector<std::uint8_t>(n, 0));
  std::vector<std::uint32_t> readers(n, 0);
  std::vector<std::size_t> distinct(orders.size(), 0);
  for (std::size_t rank = 0; rank < orders.size(); ++rank) {
    for (std::int64_t index : orders[rank]) {
      if (index < 0 || index >= samples) {
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("rank {} read sample {} of a data set of {}", rank, index, samples));
      }
      std::uint8_t& seen = read[rank][static_cast<std::size_t>(index)];
      if (seen != 0) continue;
      seen = 1;
      ++readers[static_cast<std::size_t>(index)];
      ++distinct[rank];
    }
  }
  CoverageStats stats;
  auto seen = n - static_cast<std::size_t>(std::count(readers.begin(), readers.end(), 0U));
  auto shared = static_cast<std::size_t>(std::count_if(readers.begin(), readers.end(), [](auto r) { return r > 1; }));
  if (n > 0) stats.coverage = static_cast<double>(seen) / static_cast<double>(n);
  if (seen > 0) stats.overlap = static_cast<double>(shared) / static_cast<double>(seen);

  double sum = 0;
  std::size_t pairs = 0;
  for (std::size_t a = 0; a < orders.size(); ++a) {
    for (std::size_t b = a + 1; b < orders.size(); ++b, ++pairs) {
      std::size_t common = 0;
      for (std::size_t i = 0; i < n; ++i) common += read[a][i] & read[b][i];
      std::size_t smaller = std::min(distinct[a], distinct[b]);
      if (smaller > 0) sum += static_cast<double>(common) / static_cast<double>(smaller);
    }
  }
  if (pairs > 0) stats.pair_overlap = sum / static_cast<double>(pairs);
  return stats;
}

double expected_unseen(Reading reading, std::span<const std::uint64_t> seeds, double progress) {
  std::map<std::uint64_t, std::size_t> ranks_of_seed;
  for (std::uint64_t seed : seeds) ++ranks_of_seed[seed];
  double unseen = 1;
  for (const auto& [seed, ranks] : ranks_of_seed) {
    double share =
        reading == Reading::kReplicated ? 1.0 : static_cast<double>(ranks) / static_cast<double>(seeds.size());
    unseen *= 1 - progress * share;
  }
  return unseen;
}

}  // namespace lockstep::train
