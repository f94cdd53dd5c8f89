#include "stats/stats_bench.h"

#include <gtest/gtest.h>

namespace lockstep::stats {
namespace {

TEST(StatsBench, ReportsEverySizeAndTheGrowth) {
  const auto rows = run_stats_bench({.workers = {2, 8}, .seconds = 0});
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_EQ(rows->size(), 4U);
  EXPECT_EQ((*rows)[1].name, "stats.step.n8");
  EXPECT_GT((*rows)[1].value, 0);
  EXPECT_EQ((*rows)[2].name, "stats.growth.linearity");
  EXPECT_EQ((*rows)[3].name, "stats.growth.exponent");
}

}  // namespace
}  // namespace lockstep::stats
