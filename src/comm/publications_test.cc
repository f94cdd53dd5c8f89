#include "comm/publications.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(Publications, OverflowDropsTheOldestAndIsCounted) {
  Publications publications;
  for (std::uint64_t number = 0; number < kMaxPublications; ++number) {
    EXPECT_TRUE(publications.push({number, {}}));
  }
  EXPECT_FALSE(publications.push({kMaxPublications, {}}));
  EXPECT_EQ(publications.pop()->number, 1U);
  EXPECT_EQ(publications.report_lost(3).message(), "rank 3 lost 1 publications of rank 0: more than 64 waited");
  EXPECT_TRUE(publications.report_lost(3).is_ok()) << "a loss is reported once";
}

TEST(Publications, AGapThatAroseOnTheWayIsCountedToo) {
  Publications publications;
  publications.push({0, {}});
  publications.push({5, {}});
  EXPECT_EQ(publications.pop()->number, 0U);
  EXPECT_EQ(publications.pop()->number, 5U);
  EXPECT_EQ(publications.take_lost(), 4U);
  EXPECT_FALSE(publications.pop().has_value());
}

}  // namespace
}  // namespace lockstep::comm
