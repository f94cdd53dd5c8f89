#include "train/readings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::train {
namespace {

using Order = std::vector<std::int64_t>;
using Seeds = std::vector<std::uint64_t>;

std::vector<Order> orders_of(Reading reading, std::int64_t samples, const Seeds& seeds, std::uint64_t epoch = 0,
                             bool drop_last = true) {
  std::vector<Order> orders;
  for (std::uint32_t rank = 0; rank < seeds.size(); ++rank) {
    auto world = static_cast<std::uint32_t>(seeds.size());
    orders.push_back(*rank_order(reading, samples, world, rank, seeds[rank], epoch, drop_last));
  }
  return orders;
}

CoverageStats coverage_of(std::int64_t samples, const std::vector<Order>& orders) {
  std::vector<std::span<const std::int64_t>> views(orders.begin(), orders.end());
  Result<CoverageStats> stats = measure_coverage(samples, views);
  EXPECT_TRUE(stats) << stats.error().message();
  return stats.value_or(CoverageStats{});
}

TEST(RankSeeds, AreThoseOfThePaper) {
  EXPECT_EQ(rank_seeds(SeedSetting::kS1_1, 4), (Seeds{42, 42, 42, 42}));
  EXPECT_EQ(rank_seeds(SeedSetting::kS1_2, 4), (Seeds{1041, 42, 42, 42}));
  EXPECT_EQ(rank_seeds(SeedSetting::kS1_3, 4), (Seeds{42, 52, 62, 72}));
  EXPECT_EQ(rank_seeds(SeedSetting::kS1_3, 3, 7), (Seeds{7, 17, 27}));
  EXPECT_EQ(rank_seeds(SeedSetting::kS1_2, 1), (Seeds{1041}));
  EXPECT_TRUE(rank_seeds(SeedSetting::kS1_2, 0).empty());
}

TEST(Names, AreReadBackAndOthersRefused) {
  for (auto setting : {SeedSetting::kS1_1, SeedSetting::kS1_2, SeedSetting::kS1_3}) {
    EXPECT_EQ(*parse_seed_setting(to_string(setting)), setting);
  }
  for (auto reading : {Reading::kSharded, Reading::kReplicated}) EXPECT_EQ(*parse_reading(to_string(reading)), reading);
  EXPECT_NE(parse_seed_setting("s9").error().message().find("s9"), std::string::npos);
  EXPECT_NE(parse_reading("both").error().message().find("replicated"), std::string::npos);
}

TEST(Sharded, EqualSeedsPartitionTheDataSet) {
  CoverageStats stats = coverage_of(4000, orders_of(Reading::kSharded, 4000, rank_seeds(SeedSetting::kS1_1, 8)));
  EXPECT_EQ(stats.coverage, 1.0);
  EXPECT_EQ(stats.overlap, 0.0);
  EXPECT_EQ(stats.pair_overlap, 0.0);
}

TEST(Sharded, PaddingRepeatsAtMostOneSamplePerRank) {
  auto orders = orders_of(Reading::kSharded, 4001, rank_seeds(SeedSetting::kS1_1, 8), 0, false);
  for (const Order& order : orders) EXPECT_EQ(order.size(), 501U);
  CoverageStats stats = coverage_of(4001, orders);
  EXPECT_EQ(stats.coverage, 1.0);
  EXPECT_DOUBLE_EQ(stats.overlap, 7.0 / 4001);
}

TEST(Replicated, EqualSeedsReadTheSameBatchesAndDifferentSeedsDoNot) {
  auto same = orders_of(Reading::kReplicated, 500, rank_seeds(SeedSetting::kS1_1, 3));
  EXPECT_EQ(same[0], same[1]);
  EXPECT_EQ(same[0], same[2]);
  auto mild = orders_of(Reading::kReplicated, 500, rank_seeds(SeedSetting::kS1_2, 3));
  EXPECT_NE(mild[0], mild[1]);
  EXPECT_EQ(mild[1], mild[2]);
  auto apart = orders_of(Reading::kReplicated, 500, rank_seeds(SeedSetting::kS1_3, 3));
  EXPECT_NE(apart[0], apart[1]);
  EXPECT_NE(apart[1], apart[2]);
  for (Order& order : apart) {
    std::sort(order.begin(), order.end());
    Order all(500);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(order, all) << "every rank sees every sample once";
  }
}

TEST(Replicated, EpochsDiffer) {
  EXPECT_NE(*rank_order(Reading::kReplicated, 100, 2, 0, 42, 0, true),
            *rank_order(Reading::kReplicated, 100, 2, 0, 42, 1, true));
}

TEST(Sharded, OneWorkerReadsTheWholePermutation) {
  EXPECT_EQ(*rank_order(Reading::kSharded, 100, 1, 0, 42, 0, true),
            *rank_order(Reading::kReplicated, 100, 1, 0, 42, 0, true));
}

TEST(ExpectedUnseen, MatchesTheClosedForms) {
  EXPECT_DOUBLE_EQ(expected_unseen(Reading::kSharded, rank_seeds(SeedSetting::kS1_1, 8)), 0.0);
  EXPECT_DOUBLE_EQ(expected_unseen(Reading::kSharded, rank_seeds(SeedSetting::kS1_2, 8)), 0.109375);
  EXPECT_DOUBLE_EQ(expected_unseen(Reading::kSharded, rank_seeds(SeedSetting::kS1_3, 8)), std::pow(7.0 / 8, 8));
  EXPECT_DOUBLE_EQ(expected_unseen(Reading::kReplicated, rank_seeds(SeedSetting::kS1_2, 8), 0.25), 0.75 * 0.75);
  EXPECT_DOUBLE_EQ(expected_unseen(Reading::kReplicated, rank_seeds(SeedSetting::kS1_1, 8), 0.25), 0.75);
}

// Shards of fixed size are drawn without replacement, so the count of unseen samples spreads less than a binomial of
// the same mean: its standard deviation is an upper bound. Five of them over 20 base seeds leave no room for chance.
TEST(Sharded, DifferentSeedsLeaveTheExpectedShareUnseen) {
  constexpr std::int64_t kSamples = 8000;
  for (SeedSetting setting : {SeedSetting::kS1_2, SeedSetting::kS1_3}) {
    double sum = 0;
    double expected = expected_unseen(Reading::kSharded, rank_seeds(setting, 8));
    double sigma = std::sqrt(expected * (1 - expected) / kSamples);
    constexpr int kBases = 20;
    for (int base = 0; base < kBases; ++base) {
      Seeds seeds = rank_seeds(setting, 8, 42 + 1000 * static_cast<std::uint64_t>(base));
      double unseen = 1 - coverage_of(kSamples, orders_of(Reading::kSharded, kSamples, seeds)).coverage;
      EXPECT_NEAR(unseen, expected, 5 * sigma) << to_string(setting) << " base " << base;
      sum += unseen;
    }
    EXPECT_NEAR(sum / kBases, expected, 5 * sigma / std::sqrt(kBases)) << to_string(setting);
  }
}

TEST(Sharded, DifferentSeedsOverlapByOneNthPerPair) {
  constexpr std::int64_t kSamples = 8000;
  CoverageStats stats =
      coverage_of(kSamples, orders_of(Reading::kSharded, kSamples, rank_seeds(SeedSetting::kS1_3, 8)));
  // Each pair's overlap is hypergeometric with mean 1/8 of a shard of 1000; 28 pairs.
  EXPECT_NEAR(stats.pair_overlap, 1.0 / 8, 5 * std::sqrt(1.0 / 8 * 7.0 / 8 / 1000 / 28));
  double once = 8 * (1.0 / 8) * std::pow(7.0 / 8, 7), none = std::pow(7.0 / 8, 8);
  EXPECT_NEAR(stats.overlap, (1 - none - once) / (1 - none), 0.03);
}

TEST(MeasureCoverage, RefusesIndicesOutsideTheDataSetAndSurvivesNothing) {
  Order bad{0, 5};
  std::vector<std::span<const std::int64_t>> views{bad};
  Result<CoverageStats> stats = measure_coverage(5, views);
  ASSERT_FALSE(stats);
  EXPECT_NE(stats.error().message().find("rank 0 read sample 5"), std::string::npos) << stats.error().message();
  EXPECT_EQ(measure_coverage(0, {})->coverage, 0.0);
  EXPECT_EQ(measure_coverage(10, {})->pair_overlap, 0.0);
}

TEST(MeasureCoverage, CountsByHand) {
  Order a{0, 1, 2, 2}, b{2, 3}, c{};
  std::vector<std::span<const std::int64_t>> views{a, b, c};
  CoverageStats stats = *measure_coverage(8, views);
  EXPECT_DOUBLE_EQ(stats.coverage, 4.0 / 8);
  EXPECT_DOUBLE_EQ(stats.overlap, 1.0 / 4);
  EXPECT_DOUBLE_EQ(stats.pair_overlap, (1.0 / 2 + 0 + 0) / 3);
}

}  // namespace
}  // namespace lockstep::train
