#include "train/micro_batches.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::train {
namespace {

using Order = std::vector<std::int64_t>;

Order upto(std::int64_t n) {
  Order order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Order copy(std::span<const std::int64_t> view) {
  return {view.begin(), view.end()};
}

TEST(MicroBatches, CutTheOrderInSequence) {
  MicroBatches batches = *MicroBatches::create(upto(13), {2, 3, PartialStep::kDrop});
  EXPECT_EQ(batches.steps(), 2);
  EXPECT_EQ(copy(batches.indices(0, 0)), (Order{0, 1}));
  EXPECT_EQ(copy(batches.indices(0, 2)), (Order{4, 5}));
  EXPECT_EQ(copy(batches.indices(1, 0)), (Order{6, 7}));
  EXPECT_EQ(copy(batches.read_after(1)), upto(6));
  EXPECT_EQ(copy(batches.read_after(99)), upto(12)) << "the 13th sample fills no micro-batch";
}

TEST(MicroBatches, NothingLiesOutside) {
  MicroBatches batches = *MicroBatches::create(upto(13), {2, 3, PartialStep::kDrop});
  EXPECT_TRUE(batches.indices(2, 0).empty());
  EXPECT_TRUE(batches.indices(0, 3).empty());
  EXPECT_TRUE(batches.indices(-1, 0).empty());
  EXPECT_TRUE(batches.indices(0, -1).empty());
  EXPECT_TRUE(batches.read_after(-1).empty());
  EXPECT_EQ(batches.micro_batches(2), 0);
}

TEST(MicroBatches, APartialStepIsKeptOnRequest) {
  MicroBatches batches = *MicroBatches::create(upto(17), {2, 3, PartialStep::kKeep});
  EXPECT_EQ(batches.steps(), 3);
  EXPECT_EQ(batches.micro_batches(1), 3);
  EXPECT_EQ(batches.micro_batches(2), 2);
  EXPECT_EQ(copy(batches.indices(2, 1)), (Order{14, 15}));
  EXPECT_TRUE(batches.indices(2, 2).empty());
  EXPECT_EQ(copy(batches.read_after(3)), upto(16));
}

TEST(MicroBatches, AnEmptyOrderHasNoSteps) {
  MicroBatches batches = *MicroBatches::create({}, {2, 4, PartialStep::kKeep});
  EXPECT_EQ(batches.steps(), 0);
  EXPECT_TRUE(batches.indices(0, 0).empty());
}

TEST(MicroBatches, RefuseSizesBelowOne) {
  EXPECT_FALSE(MicroBatches::create(upto(4), {0, 1, PartialStep::kDrop}));
  EXPECT_FALSE(MicroBatches::create(upto(4), {1, 0, PartialStep::kDrop}));
  EXPECT_FALSE(MicroBatches::create(upto(4), {-3, 2, PartialStep::kDrop}));
  EXPECT_FALSE(steps_per_epoch(Reading::kSharded, 100, 2, true, {1, std::int64_t{1} << 62, PartialStep::kDrop}));
}

TEST(StepsPerEpoch, GivesThePapers813) {
  EXPECT_EQ(*steps_per_epoch(Reading::kSharded, 52002, 8, false, {2, 4, PartialStep::kKeep}), 813);
  EXPECT_EQ(*steps_per_epoch(Reading::kSharded, 52002, 8, false, {2, 4, PartialStep::kDrop}), 812);
}

TEST(StepsPerEpoch, AgreesWithTheOrderItself) {
  for (bool drop_last : {false, true}) {
    for (std::int64_t samples : {16, 17, 31, 100}) {
      for (Reading reading : {Reading::kSharded, Reading::kReplicated}) {
        BatchPlan plan{2, 2, PartialStep::kKeep};
        Order order = *rank_order(reading, samples, 4, 3, 42, 0, drop_last);
        EXPECT_EQ(*steps_per_epoch(reading, samples, 4, drop_last, plan), MicroBatches::create(order, plan)->steps())
            << samples;
      }
    }
  }
}

TEST(StepsPerEpoch, MoreWorkersThanSamplesIsAnErrorThatSaysWhatToDo) {
  auto few = steps_per_epoch(Reading::kSharded, 5, 8, false, {1, 1, PartialStep::kDrop});
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().message(), "8 workers but only 5 samples: use at most 5 workers or more data");
  auto small = steps_per_epoch(Reading::kSharded, 20, 8, true, {2, 4, PartialStep::kDrop});
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message().find("fewer workers"), std::string::npos);
  EXPECT_FALSE(steps_per_epoch(Reading::kSharded, 0, 1, false, {}));
  EXPECT_FALSE(steps_per_epoch(Reading::kSharded, 10, 0, false, {}));
}

TEST(StepsPerEpoch, OneWorkerIsAWorldToo) {
  EXPECT_EQ(*steps_per_epoch(Reading::kSharded, 16, 1, true, {2, 4, PartialStep::kDrop}), 2);
}

}  // namespace
}  // namespace lockstep::train
