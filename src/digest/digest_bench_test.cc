#include "digest/digest_bench.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::digests {
namespace {

TEST(DigestBench, ReportsEveryRatioWithItsTarget) {
  const auto rows = run_digest_bench({.bytes = 8ull << 20, .rounds = 1});
  ASSERT_TRUE(rows.has_value()) << rows.error().message();
  for (const char* name : {"digest.fp32_1t", "digest.fp32_2t", "digest.bf16_1t", "digest.bf16_2t"}) {
    const auto row = std::find_if(rows->begin(), rows->end(), [&](const base::BenchRow& r) { return r.name == name; });
    ASSERT_NE(row, rows->end()) << name;
    EXPECT_GT(row->value, 0);
    EXPECT_EQ(row->target, 0.85);
  }
  EXPECT_TRUE(std::any_of(rows->begin(), rows->end(),
                          [](const base::BenchRow& r) { return r.name == "digest.hash_only_fp32_1t"; }));
}

}  // namespace
}  // namespace lockstep::digests
