#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::train {
namespace {

TEST(Schedule, LinearWithoutWarmupIsThePapersDecayToZero) {
  const ScheduleOptions options{ScheduleKind::kLinear, 5e-5, 0, 813};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 5e-5);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 5e-5 * 812 / 813);
  EXPECT_NEAR(learning_rate(options, 812), 5e-5 / 813, 1e-18);
  EXPECT_EQ(learning_rate(options, 813), 0.0);
  EXPECT_EQ(learning_rate(options, 900), 0.0);
}

TEST(Schedule, WarmupRisesFromZeroToThePeak) {
  for (const auto kind : {ScheduleKind::kLinear, ScheduleKind::kCosine, ScheduleKind::kConstant}) {
    const ScheduleOptions options{kind, 1.0, 10, 100};
    EXPECT_EQ(learning_rate(options, 0), 0.0);
    EXPECT_DOUBLE_EQ(learning_rate(options, 3), 0.3);
    EXPECT_DOUBLE_EQ(learning_rate(options, 10), 1.0);
  }
}

TEST(Schedule, CosineIsHalfAtItsMiddleAndZeroAtItsEnd) {
  const ScheduleOptions options{ScheduleKind::kCosine, 2.0, 10, 110};
  EXPECT_DOUBLE_EQ(learning_rate(options, 60), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(options, 35), 1.0 + std::sqrt(0.5));
  EXPECT_NEAR(learning_rate(options, 110), 0.0, 1e-15);
  EXPECT_NEAR(learning_rate(options, 300), 0.0, 1e-15) << "no second wave";
}

TEST(Schedule, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::kConstant, 0.25, 0, 10}, 1000), 0.25);
}

TEST(Schedule, RefusesWhatIsNoSchedule) {
  EXPECT_TRUE(check_schedule({ScheduleKind::kLinear, 1e-3, 10, 10}));
  EXPECT_FALSE(check_schedule({ScheduleKind::kLinear, 1e-3, 11, 10}));
  EXPECT_FALSE(check_schedule({ScheduleKind::kLinear, 1e-3, -1, 10}));
  EXPECT_FALSE(check_schedule({ScheduleKind::kLinear, 1e-3, 0, 0}));
  EXPECT_FALSE(check_schedule({ScheduleKind::kLinear, std::nan(""), 0, 1}));
  EXPECT_FALSE(check_schedule({ScheduleKind::kLinear, -1e-3, 0, 1}));
}

}  // namespace
}  // namespace lockstep::train
