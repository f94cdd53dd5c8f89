#include "lockstep/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Status(StatusCode::kInvalidArgument, "3 is odd");
  return value / 2;
}

TEST(Status, DefaultIsOkAndCarriesNoMessage) {
  EXPECT_TRUE(Status::ok().is_ok());
  EXPECT_TRUE(Status().message().empty());
}

TEST(Result, HoldsAValueOrTheReasonWhyNot) {
  EXPECT_EQ(*half(4), 2);
  Result<int> bad = half(3);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(bad.error().message(), "3 is odd");
  EXPECT_EQ(bad.value_or(7), 7);
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(StatusCode, EveryCodeHasAName) {
  for (int code = 0; code <= static_cast<int>(StatusCode::kInternal); ++code) {
    EXPECT_STRNE(to_string(static_cast<StatusCode>(code)), "unknown");
  }
}

}  // namespace
}  // namespace lockstep
