#include "monitor/publication.h"

#include <gtest/gtest.h>

namespace lockstep::monitor {
namespace {

TEST(Publication, CarriesMetricsAndTheirAbsence) {
  StepStats stats;
  stats.step = 12;
  stats.workers = 8;
  stats.missing = 1;
  stats.loss_mean = 1.5;
  stats.cosine_mean = -0.25;
  stats.cosine_exact = true;
  stats.reduction_scale = 0.5;
  const std::vector<std::byte> bytes = pack_publication(stats);
  EXPECT_LE(bytes.size(), kMaxPublicationBytes);
  Result<StepStats> back = unpack_publication(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 12U);
  EXPECT_EQ(back->workers, 8U);
  EXPECT_EQ(back->missing, 1U);
  EXPECT_EQ(back->loss_mean, 1.5);
  EXPECT_EQ(back->cosine_mean, -0.25);
  EXPECT_TRUE(back->cosine_exact);
  EXPECT_EQ(back->reduction_scale, 0.5);
  EXPECT_FALSE(back->norm_mean.has_value());
}

TEST(Publication, ForeignOrTruncatedBytesAreRefused) {
  std::vector<std::byte> bytes = pack_publication({});
  EXPECT_FALSE(unpack_publication(std::span(bytes).first(bytes.size() - 1)).has_value());
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(unpack_publication(bytes).has_value());
}

}  // namespace
}  // namespace lockstep::monitor
