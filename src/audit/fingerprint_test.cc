#include "audit/fingerprint.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace lockstep::audit {
namespace {

TEST(Fingerprint, WidthOfTokenIdsDoesNotMatter) {
  for (const std::size_t size : {0UL, 1UL, 127UL, 128UL, 129UL, 1024UL}) {
    std::vector<std::int64_t> wide(size);
    std::iota(wide.begin(), wide.end(), -3);
    const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
    EXPECT_EQ(fingerprint(std::span<const std::int64_t>(wide)), fingerprint(std::span<const std::int32_t>(narrow)));
  }
}

TEST(Fingerprint, OneChangedTokenAndOneSwapAreSeen) {
  std::vector<std::int64_t> tokens(300, 7);
  tokens[5] = 8;
  const std::uint64_t before = fingerprint(std::span<const std::int64_t>(tokens));
  std::swap(tokens[5], tokens[200]);
  EXPECT_NE(fingerprint(std::span<const std::int64_t>(tokens)), before);
}

TEST(Fingerprint, IdsBecomeDistinctSpreadNumbers) {
  std::set<std::uint64_t> seen;
  int high = 0;
  for (std::uint64_t id = 0; id < 10000; ++id) {
    const std::uint64_t value = fingerprint_of_id(id);
    seen.insert(value);
    high += static_cast<int>(value >> 63U);
  }
  EXPECT_EQ(seen.size(), 10000U);
  EXPECT_NEAR(high, 5000, 300);  // six standard deviations
}

TEST(Fingerprint, IsTheSameNumberForEver) {
  // Stored in run files: a change of the hash would make old and new runs incomparable.
  const std::vector<std::int64_t> tokens = {1, 2, 3};
  EXPECT_EQ(fingerprint(std::span<const std::int64_t>(tokens)), 15428750857144179608ULL);
  EXPECT_EQ(fingerprint_of_id(0), 0xC77B3ABB6F87ACD9ULL);
}

}  // namespace
}  // namespace lockstep::audit
