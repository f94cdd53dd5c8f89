// Who reads what: the settings and the two readings of the study, and what each does to coverage and overlap.
//
// "Identical shuffling across workers" can be read two ways. Sharded: rank i takes every N-th sample of the permutation
// of its seed, beginning at i, so equal seeds give disjoint shards. Replicated: rank i walks through the whole
// permutation of its seed, so equal seeds give identical batches.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

// The paper's seed settings. S1-1: all ranks the base seed. S1-2: rank 0 another. S1-3: all different.
enum class SeedSetting { kS1_1, kS1_2, kS1_3 };
enum class Reading { kSharded, kReplicated };

const char* to_string(SeedSetting setting) noexcept;  // "s1-1"
const char* to_string(Reading reading) noexcept;      // "sharded"
Result<SeedSetting> parse_seed_setting(std::string_view name);
Result<Reading> parse_reading(std::string_view name);

inline constexpr std::uint64_t kPaperSeed = 42;

// One seed per rank. With the paper's base: S1-1 42 everywhere, S1-2 rank 0 1041 and the others 42, S1-3 42 + 10 rank.
std::vector<std::uint64_t> rank_seeds(SeedSetting setting, std::uint32_t world, std::uint64_t base = kPaperSeed);

// The samples that one rank reads in one epoch, in order. Sharded is torch's DistributedSampler, replicated torch's
// RandomSampler; drop_last matters to the former only.
Result<std::vector<std::int64_t>> rank_order(Reading reading, std::int64_t samples, std::uint32_t world,
                                             std::uint32_t rank, std::uint64_t seed, std::uint64_t epoch,
                                             bool drop_last);

// What the ranks together have read. `orders[i]` is what rank i read so far; entries must be in [0, samples).
struct CoverageStats {
  double coverage = 0;      // share of the data set that some rank has read
  double overlap = 0;       // share of what was read that two or more ranks have read
  double pair_overlap = 0;  // mean over pairs of |A and B| / min(|A|, |B|), of distinct samples; 0 for one rank
};
Result<CoverageStats> measure_coverage(std::int64_t samples, std::span<const std::span<const std::int64_t>> orders);

// Expected share of samples that nobody has read after each rank read `progress` (0 to 1) of its epoch, for sample
// counts that divide evenly. Ranks of one seed are disjoint (sharded) or read the same (replicated); different seeds
// are independent. So it is the product over distinct seeds of 1 - progress * (ranks with it) / N, or 1 - progress.
double expected_unseen(Reading reading, std::span<const std::uint64_t> seeds, double progress = 1.0);

}  // namespace lockstep::train
