#include "audit/sample_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep::audit {
namespace {

TEST(SampleTable, FindsWhatWasInsertedThroughManyGrowths) {
  SampleTable table(1U << 20U);
  for (std::uint64_t id = 0; id < 100000; ++id) table.insert(id, {id, static_cast<std::uint32_t>(id), 0, 3, 1});
  EXPECT_EQ(table.size(), 100000U);
  EXPECT_EQ(table.kept_fraction(), 1.0);
  for (std::uint64_t id = 1; id < 100000; ++id) {
    const Sighting* found = table.find(id);
    ASSERT_NE(found, nullptr) << id;
    ASSERT_EQ(found->position, id);
  }
  EXPECT_EQ(table.find(100001), nullptr);
}

TEST(SampleTable, BeyondItsBoundKeepsAFixedPartChosenByFingerprint) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  SampleTable table(10000);
  std::vector<std::uint64_t> all(100000);
  for (auto& fingerprint : all) {
    fingerprint = random();
    if (table.keeps(fingerprint)) table.insert(fingerprint, {});
  }
  EXPECT_LE(table.size(), 10000U);
  std::size_t kept = 0;
  for (const auto fingerprint : all) {
    if (!table.keeps(fingerprint)) continue;
    ++kept;
    EXPECT_NE(table.find(fingerprint), nullptr);  // kept means that no sighting of it was ever lost
  }
  EXPECT_EQ(kept, table.size());
  EXPECT_NEAR(static_cast<double>(kept), 100000 * table.kept_fraction(), 6 * std::sqrt(kept));
}

TEST(SampleTable, ForgetsWhatWasSeenFromAStepOn) {
  SampleTable table(1000);
  for (std::uint64_t id = 1; id <= 100; ++id) table.insert(id, {id, 0, 0, 0, 0});
  table.forget_from(51);
  EXPECT_EQ(table.size(), 50U);
  EXPECT_NE(table.find(50), nullptr);
  EXPECT_EQ(table.find(51), nullptr);
}

}  // namespace
}  // namespace lockstep::audit
