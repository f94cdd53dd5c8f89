// What is particular to the callback transport: slots, steps that do not match, and a host's all-gather that fails.
// Slots are exchanged by hand, so that each rank's bytes can be chosen.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "lockstep/transport.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kSlotBytes = 256;

// Two ranks that take turns in one thread: rank 1 speaks first and only then does rank 0 listen.
class TwoRanks {
 public:
  TwoRanks() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      transports_[rank] =
          make_callback_transport({.rank = rank, .size = 2, .slot_bytes = kSlotBytes}, [this, rank](const void* send,
                                                                                                    std::size_t bytes,
                                                                                                    void* receive) {
            std::memcpy(slots_.data() + rank * bytes, send, bytes);
            std::memcpy(receive, slots_.data(), slots_.size());
            return 0;
          }).value();
    }
  }
  Transport& operator[](std::uint32_t rank) { return *transports_[rank]; }

  // Rank 1 cannot read rank 0's slot before there is one.
  void prime() {
    const auto first = transports_[0]->gather(0, {}, Clock::now());
    EXPECT_FALSE(first.has_value()) << "rank 1's slot is still zero";
  }

 private:
  std::array<std::unique_ptr<Transport>, 2> transports_;
  std::vector<std::byte> slots_ = std::vector<std::byte>(2 * kSlotBytes);
};

std::vector<std::byte> bytes(std::size_t count, int value = 7) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

Result<std::unique_ptr<Transport>> lone(AllGather all_gather) {
  return make_callback_transport({.rank = 0, .size = 1, .slot_bytes = kSlotBytes}, std::move(all_gather));
}

TEST(CallbackTransport, BadOptionsAreRefused) {
  const AllGather fine = [](const void*, std::size_t, void*) { return 0; };
  EXPECT_FALSE(make_callback_transport({.rank = 0, .size = 0, .slot_bytes = 999}, fine).has_value());
  EXPECT_FALSE(make_callback_transport({.rank = 2, .size = 2, .slot_bytes = 999}, fine).has_value());
  EXPECT_FALSE(make_callback_transport({.rank = 0, .size = 2, .slot_bytes = 10}, fine).has_value());
  EXPECT_FALSE(make_callback_transport({.rank = 0, .size = 2, .slot_bytes = 999}, nullptr).has_value());
}

TEST(CallbackTransport, ANonzeroReturnIsAnErrorThatNamesTheStep) {
  auto transport = lone([](const void*, std::size_t, void*) { return 42; }).value();
  const auto gathered = transport->gather(12, {}, Clock::now());
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().message(), "rank 0, step 12: the host's all-gather returned 42");
}

TEST(CallbackTransport, AnExceptionOfTheHostDoesNotEscape) {
  auto transport = lone([](const void*, std::size_t, void*) -> int { throw std::runtime_error("no route"); }).value();
  const auto gathered = transport->gather(12, {}, Clock::now());
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().message(), "rank 0, step 12: the host's all-gather threw: no route");
}

TEST(CallbackTransport, AnAllGatherThatCopiesNothingIsAnErrorAndNoRecord) {
  auto transport = lone([](const void*, std::size_t, void*) { return 0; }).value();
  const auto gathered = transport->gather(0, {}, Clock::now());
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().code(), StatusCode::kCorrupt);
}

TEST(CallbackTransport, RanksWithAnotherStepAreNamed) {
  TwoRanks ranks;
  ranks.prime();
  ASSERT_TRUE(ranks[1].gather(11, bytes(3), Clock::now()).has_value());
  const auto gathered = ranks[0].gather(12, bytes(3), Clock::now());
  ASSERT_TRUE(gathered.has_value());
  EXPECT_EQ(gathered->status.message(), "step 12: no record from rank 1; rank 1 came with step 11");
  EXPECT_EQ(gathered->late, 1U);
}

TEST(CallbackTransport, ARankThatIsAStepAheadLosesOnlyTheStepThatItSkipped) {
  TwoRanks ranks;
  ranks.prime();
  ASSERT_TRUE(ranks[1].gather(13, bytes(3, 13), Clock::now()).has_value());
  const auto skipped = ranks[0].gather(12, {}, Clock::now());
  ASSERT_TRUE(skipped.has_value());
  EXPECT_EQ(skipped->status.message(),
            "step 12: no record from rank 1 (rank 1 went on to a later step); rank 1 came with step 13");
  ASSERT_TRUE(ranks[1].gather(14, bytes(3, 14), Clock::now()).has_value());
  const auto complete = ranks[0].gather(13, {}, Clock::now());
  ASSERT_TRUE(complete.has_value());
  EXPECT_TRUE(complete->status.is_ok()) << complete->status.message();
  EXPECT_EQ(complete->messages[1], bytes(3, 13));
}

TEST(CallbackTransport, AMessageLargerThanTheSlotIsNamedWithItsSizesOnBothSides) {
  TwoRanks ranks;
  ranks.prime();
  const auto sent = ranks[1].gather(1, bytes(217), Clock::now());
  ASSERT_TRUE(sent.has_value()) << "it must take part in the collective all the same";
  EXPECT_EQ(sent->status.message(),
            "rank 1, step 1: a message of 217 bytes does not fit a slot of 256 bytes with a header of 40: make "
            "slot_bytes larger");
  const auto gathered = ranks[0].gather(1, {}, Clock::now());
  ASSERT_TRUE(gathered.has_value());
  EXPECT_EQ(gathered->status.message(),
            "step 1: no record from rank 1; rank 1's message of 217 bytes does not fit its slot of 256 bytes with a "
            "header of 40");
}

TEST(CallbackTransport, AMessageThatFillsTheSlotTravels) {
  TwoRanks ranks;
  ranks.prime();
  ASSERT_TRUE(ranks[1].gather(1, bytes(216), Clock::now())->status.is_ok());
  EXPECT_EQ(ranks[0].gather(1, {}, Clock::now())->messages[1], bytes(216));
}

TEST(CallbackTransport, APublicationWaitsUntilItFitsBesideTheMessage) {
  TwoRanks ranks;
  ranks.prime();
  ASSERT_TRUE(ranks[0].publish(bytes(150, 1)).is_ok());
  ASSERT_TRUE(ranks[1].gather(1, {}, Clock::now()).has_value());
  ASSERT_TRUE(ranks[0].gather(1, bytes(100), Clock::now()).has_value());  // no room
  ASSERT_TRUE(ranks[1].gather(2, {}, Clock::now()).has_value());
  EXPECT_FALSE(ranks[1].poll()->has_value());
  ASSERT_TRUE(ranks[0].gather(2, bytes(10), Clock::now()).has_value());
  ASSERT_TRUE(ranks[1].gather(3, {}, Clock::now()).has_value());
  const auto polled = ranks[1].poll();
  ASSERT_TRUE(polled->has_value());
  EXPECT_EQ(**polled, bytes(150, 1));
}

TEST(CallbackTransport, APublicationThatCanNeverFitIsRefusedWithItsSizes) {
  TwoRanks ranks;
  EXPECT_EQ(ranks[0].publish(bytes(201)).message(),
            "rank 0: a publication of 201 bytes, a slot of 256 bytes carries at most 200: make slot_bytes larger");
  EXPECT_TRUE(ranks[0].publish(bytes(200)).is_ok());
}

TEST(CallbackTransport, PublicationsThatDoNotLeaveAreBoundedAndBothSidesSaySo) {
  TwoRanks ranks;
  ranks.prime();
  for (int number = 0; number < 64; ++number) ASSERT_TRUE(ranks[0].publish(bytes(1, number)).is_ok());
  for (int number = 64; number < 66; ++number) {
    EXPECT_EQ(ranks[0].publish(bytes(1, number)).code(), StatusCode::kUnavailable);
  }
  ASSERT_TRUE(ranks[1].gather(1, {}, Clock::now()).has_value());
  ASSERT_TRUE(ranks[0].gather(1, {}, Clock::now()).has_value());
  ASSERT_TRUE(ranks[1].gather(2, {}, Clock::now()).has_value());
  const auto polled = ranks[1].poll();
  ASSERT_TRUE(polled.has_value() && polled->has_value());
  EXPECT_EQ(**polled, bytes(1, 2)) << "the two oldest had to go";
  EXPECT_EQ(ranks[1].gather(3, {}, Clock::now())->status.message(),
            "rank 1 lost 2 publications of rank 0: more than 64 waited");
}

}  // namespace
}  // namespace lockstep::comm
