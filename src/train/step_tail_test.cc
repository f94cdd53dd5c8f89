#include "train/step_tail.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::train {
namespace {

// What an all-reduce does to two ranks' tails.
std::vector<float> add(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

std::vector<float> tail_of(std::uint32_t rank, const RankStep& values, bool stop = false) {
  std::vector<float> buffer(StepTail::size(2), 0.0F);
  StepTail tail(buffer, 2);
  tail.set(rank, values);
  if (stop) tail.ask_to_stop();
  return buffer;
}

TEST(StepTail, TheSumOfTailsHoldsEveryRanksValues) {
  std::vector<float> sum = add(tail_of(0, {1.0 / 3, 123456789, 7}), tail_of(1, {2.25, 0, 1LL << 40}));
  const StepTail tail(sum, 2);
  EXPECT_NEAR(tail.get(0).loss, 1.0 / 3, 1e-14);
  EXPECT_EQ(tail.get(0).tokens, 123456789);
  EXPECT_EQ(tail.get(0).response_tokens, 7);
  EXPECT_EQ(tail.get(1).loss, 2.25);
  EXPECT_EQ(tail.get(1).response_tokens, 1LL << 40);
  EXPECT_FALSE(tail.stop_asked());
}

TEST(StepTail, ANonFiniteLossStaysWithItsRank) {
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    std::vector<float> sum = add(tail_of(0, {bad, 1, 1}), tail_of(1, {0.5, 2, 2}));
    const StepTail tail(sum, 2);
    EXPECT_FALSE(std::isfinite(tail.get(0).loss));
    EXPECT_EQ(std::isnan(tail.get(0).loss), std::isnan(bad));
    EXPECT_EQ(tail.get(1).loss, 0.5);
    EXPECT_EQ(tail.get(1).tokens, 2);
  }
}

TEST(StepTail, OneRankThatWantsToStopStopsAll) {
  std::vector<float> sum = add(tail_of(0, {}), tail_of(1, {}, true));
  EXPECT_TRUE(StepTail(sum, 2).stop_asked());
}

}  // namespace
}  // namespace lockstep::train
