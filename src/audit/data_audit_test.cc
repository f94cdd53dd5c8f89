#include "audit/data_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "audit/fingerprint.h"

namespace lockstep::audit {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kBatch = 4;

using Batches = std::vector<std::vector<std::uint64_t>>;

// Shards of one permutation per rank, as a distributed sampler deals them.
class Sampler {
 public:
  Sampler(std::size_t size, std::vector<std::uint64_t> seeds) : size_(size), seeds_(std::move(seeds)) { set_epoch(0); }
  void set_epoch(std::uint64_t epoch) {
    orders_.clear();
    for (const std::uint64_t seed : seeds_) {
      std::vector<std::uint64_t> order(size_);
      std::iota(order.begin(), order.end(), 0);
      std::mt19937_64 random(seed * 1000003 + epoch);
      std::shuffle(order.begin(), order.end(), random);
      orders_.push_back(std::move(order));
    }
    at_ = 0;
  }
  bool more() const { return at_ + kBatch <= size_ / kRanks; }
  Batches next() {
    Batches batches(kRanks);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        batches[rank].push_back(fingerprint_of_id(orders_[rank][(at_ + i) * kRanks + rank]));
      }
    }
    at_ += kBatch;
    return batches;
  }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> seeds_;
  std::vector<std::vector<std::uint64_t>> orders_;
  std::size_t at_ = 0;
};

const AuditReport& add(DataAudit& audit, std::uint64_t step, const Batches& batches, const SamplerFacts& facts = {}) {
  std::vector<RankBatch> views;
  for (std::uint32_t rank = 0; rank < batches.size(); ++rank) {
    views.push_back({rank, batches[rank], batches[rank].size(), facts});
  }
  return audit.add(step, views);
}

TEST(DataAudit, ShardedEpochsAreCoveredWithoutRepeats) {
  Sampler sampler(512, {7, 7, 7, 7});
  DataAudit audit;
  std::uint64_t step = 0;
  int closed = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    sampler.set_epoch(epoch);
    while (sampler.more()) {
      const AuditReport& report = add(audit, step++, sampler.next());
      EXPECT_EQ(report.repeats.cross, 0U) << "step " << step;
      EXPECT_EQ(report.repeats.same, 0U);
      EXPECT_TRUE(report.identical.empty());
      if (report.closed) {
        ++closed;
        EXPECT_EQ(report.closed->distinct, 512U);
        EXPECT_EQ(report.closed->consumed, 512U);
      }
    }
  }
  EXPECT_EQ(closed, 4);  // boundaries were inferred, nobody told them
}

TEST(DataAudit, UnequalSeedsRepeatAcrossRanksOnly) {
  Sampler sampler(512, {1, 7, 7, 7});
  DataAudit audit;
  AuditReport last;
  for (std::uint64_t step = 0; sampler.more(); ++step) last = add(audit, step, sampler.next());
  EXPECT_GT(last.repeats.cross, 20U);
  EXPECT_EQ(last.repeats.same, 0U);
  for (const auto& [pair, count] : last.repeats.pairs) EXPECT_EQ(pair.first, 0U) << pair.second;
}

TEST(DataAudit, NaturalDuplicatesHitTheSameRankToo) {
  std::mt19937_64 random(5);
  DataAudit audit;
  AuditReport last;
  for (std::uint64_t step = 0; step < 400; ++step) {
    Batches batches(kRanks);
    for (auto& batch : batches) {
      for (std::size_t i = 0; i < kBatch; ++i) batch.push_back(fingerprint_of_id(random() % 100000));
    }
    last = add(audit, step, batches);
  }
  ASSERT_GT(last.repeats.cross, 50U);
  EXPECT_NEAR(static_cast<double>(last.repeats.same) * (kRanks - 1), static_cast<double>(last.repeats.cross),
              4 * (kRanks - 1) * std::sqrt(static_cast<double>(last.repeats.same)));
}

TEST(DataAudit, IdenticalBatchesAreGroupedWhateverTheirOrder) {
  DataAudit audit;
  const AuditReport& report = add(audit, 0, {{1, 2, 3}, {4, 5, 6}, {3, 1, 2}, {7, 8, 9}});
  ASSERT_EQ(report.identical.size(), 1U);
  EXPECT_EQ(report.identical[0].ranks, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(report.identical[0].distinct, 3U);
}

TEST(DataAudit, TheSameOrderAgainIsAReplayOfEveryRank) {
  Sampler sampler(512, {7, 7, 7, 7});
  DataAudit audit;
  std::uint64_t step = 0;
  for (; sampler.more(); ++step) EXPECT_TRUE(add(audit, step, sampler.next()).replays.empty());
  sampler.set_epoch(0);
  const AuditReport& report = add(audit, step, sampler.next());
  ASSERT_EQ(report.replays.size(), kRanks);
  for (const Replay& replay : report.replays) {
    EXPECT_EQ(replay.run, kBatch);
    EXPECT_EQ(replay.first_step, step);
  }
}

TEST(DataAudit, AnOldOrderThatComesBackAfterOthersIsAReplay) {
  Sampler sampler(512, {7, 7, 7, 7});
  DataAudit audit;
  std::uint64_t step = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);
    while (sampler.more()) add(audit, step++, sampler.next());
  }
  sampler.set_epoch(0);
  const AuditReport& report = add(audit, step, sampler.next());
  ASSERT_EQ(report.replays.size(), kRanks);
  EXPECT_EQ(report.replays[2].run, kBatch);
}

TEST(DataAudit, StepsThatAreTakenBackAreForgotten) {
  Sampler sampler(512, {7, 7, 7, 7});
  DataAudit audit;
  std::vector<Batches> steps;
  while (sampler.more()) steps.push_back(sampler.next());
  for (std::uint64_t step = 0; step < 20; ++step) add(audit, step, steps[step]);
  for (std::uint64_t step = 10; step < steps.size(); ++step) {
    const AuditReport& report = add(audit, step, steps[step]);
    EXPECT_TRUE(report.replays.empty()) << step;
    EXPECT_EQ(report.repeats.cross, 0U);
  }
}

TEST(DataAudit, PaddingAtTheEndOfAnEpochIsNoRepeat) {
  DataAudit audit;
  // 14 samples on 4 ranks: the sampler fills up with the first two.
  add(audit, 0, {{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  add(audit, 1, {{8, 12}, {9, 13}, {10, 0}, {11, 1}});
  add(audit, 2, {{9, 3}, {7, 10}, {0, 12}, {5, 2}});
  const AuditReport& report = add(audit, 3, {{1, 13}, {11, 4}, {8, 6}, {9, 3}});
  EXPECT_EQ(report.current.epoch, 1U);
  EXPECT_EQ(report.repeats.cross, 0U);
}

TEST(DataAudit, BeyondItsMemoryCoverageIsAnEstimate) {
  constexpr std::size_t kSize = 40000;
  Sampler sampler(kSize, {3, 3, 3, 3});
  DataAudit audit({.max_samples = 4000});
  std::uint64_t step = 0;
  std::optional<EpochCoverage> closed;
  for (int epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    while (sampler.more() && !closed)
      closed =
          add(audit, step++, sampler.next(), {true, true, 0, 4, 3, static_cast<std::uint64_t>(epoch), kSize}).closed;
  }
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->consumed, kSize);
  // 2,500 kept samples give one in fifty.
  EXPECT_NEAR(static_cast<double>(closed->distinct), kSize, 6 * 0.02 * kSize);
}

}  // namespace
}  // namespace lockstep::audit
