#include "train/study_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep::train {
namespace {

TEST(StudyBaseSeeds, AreFortyTwoAndTheNextOnes) {
  EXPECT_EQ(study_base_seeds(5, 8, 1), (std::vector<std::uint64_t>{42, 43, 44, 45, 46}));
}

TEST(StudyBaseSeeds, NoDataOrderOfOneRepetitionOccursInAnother) {
  for (std::uint32_t workers : {1U, 2U, 8U, 64U, 128U}) {
    for (std::int64_t epochs : {1, 3}) {
      std::map<std::uint64_t, std::uint64_t> owner;  // of a sampler seed
      for (std::uint64_t base : study_base_seeds(40, workers, epochs)) {
        for (SeedSetting setting : {SeedSetting::kS1_1, SeedSetting::kS1_2, SeedSetting::kS1_3}) {
          for (std::uint64_t seed : rank_seeds(setting, workers, base)) {
            for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
              const auto [entry, is_new] = owner.emplace(seed + static_cast<std::uint64_t>(epoch), base);
              ASSERT_EQ(entry->second, base) << "seed " << seed << " epoch " << epoch << " workers " << workers;
            }
          }
        }
      }
    }
  }
}

TEST(StudyArms, AreThePapersSettingsInBothReadings) {
  const auto arms = study_arms(StudyKind::kS1, {Reading::kSharded, Reading::kReplicated}, Precision::kFp32);
  std::vector<std::string> labels;
  for (const StudyArm& arm : arms) labels.push_back(arm.label());
  EXPECT_EQ(labels, (std::vector<std::string>{"S1-1-sharded", "S1-2-sharded", "S1-3-sharded", "S1-1-replicated",
                                              "S1-2-replicated", "S1-3-replicated"}));
}

TEST(StudyArms, OfS2DifferInPrecisionAlone) {
  const auto arms = study_arms(StudyKind::kS2, {Reading::kSharded}, Precision::kFp32);
  ASSERT_EQ(arms.size(), 2U);
  EXPECT_EQ(arms[0].precision, Precision::kFp32);
  EXPECT_EQ(arms[1].precision, Precision::kBf16);
  EXPECT_EQ(arms[0].seeds, SeedSetting::kS1_1);
  EXPECT_EQ(arms[1].seeds, SeedSetting::kS1_1);
}

TEST(ExpectedCoverage, GivesThePapersLossesAfterOneEpoch) {
  const ReadPlan epoch{3840, 8, 60, 60};
  EXPECT_NEAR(1 - expected_coverage(Reading::kSharded, SeedSetting::kS1_1, 8, epoch), 0, 1e-12);
  EXPECT_NEAR(1 - expected_coverage(Reading::kSharded, SeedSetting::kS1_2, 8, epoch), 0.109375, 1e-12);
  EXPECT_NEAR(1 - expected_coverage(Reading::kSharded, SeedSetting::kS1_3, 8, epoch), 0.343609, 1e-6);
}

// Real orders of the real sampler against the formula, also over several epochs and in mid-epoch.
TEST(ExpectedCoverage, AgreesWithWhatTheSamplerReads) {
  constexpr std::int64_t kSamples = 3840;
  for (Reading reading : {Reading::kSharded, Reading::kReplicated}) {
    const std::int64_t steps_per_epoch = reading == Reading::kSharded ? 60 : 480;
    for (SeedSetting setting : {SeedSetting::kS1_1, SeedSetting::kS1_2, SeedSetting::kS1_3}) {
      for (std::int64_t steps : {20, 60, 85, 700}) {
        if (reading == Reading::kSharded && steps > 200) continue;
        const std::vector<std::uint64_t> seeds = rank_seeds(setting, 8);
        std::vector<std::vector<std::int64_t>> read(8);
        for (std::uint32_t rank = 0; rank < 8; ++rank) {
          for (std::int64_t left = steps, epoch = 0; left > 0; left -= steps_per_epoch, ++epoch) {
            auto order = rank_order(reading, kSamples, 8, rank, seeds[rank], static_cast<std::uint64_t>(epoch), false);
            ASSERT_TRUE(order);
            const auto count = std::min(left, steps_per_epoch) * 8;
            read[rank].insert(read[rank].end(), order->begin(), order->begin() + count);
          }
        }
        std::vector<std::span<const std::int64_t>> spans(read.begin(), read.end());
        const double measured = measure_coverage(kSamples, spans)->coverage;
        // Five standard deviations of a share of 3,840 independent samples, which is more than these have.
        EXPECT_NEAR(measured, expected_coverage(reading, setting, 8, {kSamples, 8, steps, steps_per_epoch}), 0.04)
            << to_string(reading) << " " << to_string(setting) << " " << steps;
      }
    }
  }
}

TEST(ReplicatedOracle, IsThePapersForEightWorkers) {
  EXPECT_DOUBLE_EQ(replicated_cosine(SeedSetting::kS1_1, 8, 0.2), 1);
  EXPECT_DOUBLE_EQ(replicated_cosine(SeedSetting::kS1_2, 8, 0.2), 0.75 + 0.25 * 0.2);
  EXPECT_DOUBLE_EQ(replicated_cosine(SeedSetting::kS1_3, 8, 0.2), 0.2);
  EXPECT_DOUBLE_EQ(replicated_variance(SeedSetting::kS1_2, 8), 0.25);
  EXPECT_DOUBLE_EQ(replicated_cosine(SeedSetting::kS1_2, 2, 0.2), 0.2);  // two ranks: one pair, and it is apart
}

}  // namespace
}  // namespace lockstep::train
