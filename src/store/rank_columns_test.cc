#include "store/rank_columns.h"

#include <gtest/gtest.h>

#include <random>

#include "store/test_run.h"

namespace lockstep::store {
namespace {

std::vector<RankScalars> scalars_of(const Step& step) {
  const StepStats stats = make_stats(step);
  std::vector<RankScalars> rows;
  for (std::size_t i = 0; i < step.records.size(); ++i) rows.push_back(to_scalars(step.records[i], &stats.ranks[i]));
  return rows;
}

TEST(RankColumns, WhatIsEncodedIsDecodedFromBothBlobs) {
  Step step = make_step(7, 3);
  step.records[1].state[2] = {true, 0xfeedfacecafebeefULL};
  step.records[2].gradient.nonfinite = 5;
  const std::vector<RankScalars> rows = scalars_of(step);
  std::vector<RankScalars> back;
  ASSERT_TRUE(decode(encode(rows, kSeriesColumns), kSeriesColumns, back).is_ok());
  ASSERT_TRUE(decode(encode(rows, kDetailColumns), kDetailColumns, back).is_ok());
  ASSERT_EQ(back.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(back[i].rank, i);
    EXPECT_EQ(back[i].loss, rows[i].loss) << "doubles survive exactly";
    EXPECT_EQ(back[i].norm, rows[i].norm);
    EXPECT_FLOAT_EQ(static_cast<float>(*back[i].leave_one_out), static_cast<float>(*rows[i].leave_one_out));
    EXPECT_EQ(back[i].gradient_hash, rows[i].gradient_hash);
    EXPECT_EQ(back[i].reduced_hash, rows[i].reduced_hash);
    EXPECT_EQ(back[i].batch_hash, rows[i].batch_hash);
    EXPECT_EQ(back[i].tokens, 100 + i);
    EXPECT_EQ(back[i].observed, rows[i].observed);
    EXPECT_FALSE(back[i].reduction_gap.has_value()) << "absent stays absent";
  }
  EXPECT_EQ(back[1].state[2], 0xfeedfacecafebeefULL);
  EXPECT_NE(back[1].observed & RankScalars::state_bit(2), 0);
  EXPECT_EQ(back[0].observed & RankScalars::state_bit(2), 0);
  EXPECT_EQ(back[2].nonfinite, 5U);
}

TEST(RankColumns, AbsentRanksKeepTheirNumbers) {
  Step step = make_step(7, 5);
  step.records.erase(step.records.begin() + 1);
  std::vector<RankScalars> back;
  ASSERT_TRUE(decode(encode(scalars_of(step), kSeriesColumns), kSeriesColumns, back).is_ok());
  ASSERT_EQ(back.size(), 4U);
  EXPECT_EQ(back[0].rank, 0U);
  EXPECT_EQ(back[1].rank, 2U);
  EXPECT_EQ(back[3].rank, 4U);
}

TEST(RankColumns, ABatchHasOneHashInAnyOrder) {
  Record a, b;
  a.fingerprints = {1, 2, 3};
  b.fingerprints = {3, 1, 2};
  EXPECT_EQ(to_scalars(a, nullptr).batch_hash, to_scalars(b, nullptr).batch_hash);
  b.fingerprints = {3, 1, 4};
  EXPECT_NE(to_scalars(a, nullptr).batch_hash, to_scalars(b, nullptr).batch_hash);
}

TEST(RankColumns, OrdinaryStepsTakeUnderAHundredBytesPerRank) {
  const std::vector<RankScalars> rows = scalars_of(make_step(7, 8));
  EXPECT_LT(encode(rows, kSeriesColumns).size() + encode(rows, kDetailColumns).size(), 8 * 100U);
}

TEST(RankColumns, DamagedBlobsAreRefusedNeverRead) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::byte> good = encode(scalars_of(make_step(7, 4)), kDetailColumns);
  std::vector<RankScalars> rows;
  for (std::size_t length = 0; length < good.size(); ++length) {
    rows.clear();
    EXPECT_FALSE(decode(std::span(good).first(length), kDetailColumns, rows).is_ok()) << length;
  }
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bad = good;
    for (int flips = 0; flips < 3; ++flips) bad[random() % bad.size()] = static_cast<std::byte>(random());
    rows.clear();
    (void)decode(bad, kDetailColumns, rows);  // the sanitizers watch
  }
}

}  // namespace
}  // namespace lockstep::store
