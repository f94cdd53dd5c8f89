#include "comm/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace lockstep::comm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::vector<std::byte> bytes_of(int value) {
  return {static_cast<std::byte>(value)};
}

void deliver(Mailbox& mailbox, std::uint32_t rank, std::uint64_t step) {
  mailbox.deliver(rank, step, bytes_of(static_cast<int>(step)), Clock::now());
}

TEST(Mailbox, NamesTheMissingRanksTheStepAndTheTimeWaited) {
  Mailbox mailbox(6);
  for (const std::uint32_t rank : {0U, 1U, 2U, 4U}) deliver(mailbox, rank, 12);
  const GatheredStep gathered = mailbox.collect(12, Clock::now() + milliseconds(20));
  EXPECT_EQ(gathered.status.message(), "step 12: no record from ranks 3, 5 within 20 ms");
  EXPECT_EQ(gathered.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(gathered.arrived, (std::vector<bool>{true, true, true, false, true, false}));
}

TEST(Mailbox, ALaterMessageProvesThatTheStepWasSkipped) {
  Mailbox mailbox(2);
  deliver(mailbox, 0, 4);
  deliver(mailbox, 1, 5);
  const GatheredStep gathered = mailbox.collect(4, Clock::now() + hours(1));
  EXPECT_EQ(gathered.status.message(), "step 4: no record from rank 1 (rank 1 went on to a later step)");
  deliver(mailbox, 0, 5);
  EXPECT_TRUE(mailbox.collect(5, Clock::now() + hours(1)).status.is_ok());
}

TEST(Mailbox, ALostRankCostsTwoDeadlinesAndOneMessageBringsItBack) {
  Mailbox mailbox(2);
  for (std::uint64_t step = 0; step < 2; ++step) {
    deliver(mailbox, 0, step);
    EXPECT_EQ(mailbox.collect(step, Clock::now() + milliseconds(1)).status.code(),
              step == 0 ? StatusCode::kDeadlineExceeded : StatusCode::kUnavailable);
  }
  EXPECT_TRUE(mailbox.present_peers().empty());
  deliver(mailbox, 0, 2);
  const GatheredStep unwaited = mailbox.collect(2, Clock::now() + hours(1));
  EXPECT_EQ(unwaited.status.message(),
            "step 2: no record from rank 1 (rank 1 silent for 2 steps, no longer waited for)");
  deliver(mailbox, 1, 2);  // late, but a sign of life
  EXPECT_EQ(mailbox.present_peers(), std::vector<std::uint32_t>{1});
  deliver(mailbox, 0, 3);
  const GatheredStep waited = mailbox.collect(3, Clock::now() + milliseconds(1));
  EXPECT_EQ(waited.status.code(), StatusCode::kDeadlineExceeded) << "it is waited for again";
  EXPECT_EQ(waited.late, 1U);
}

TEST(Mailbox, WhatTheAnalystSkipsIsCountedAsLate) {
  Mailbox mailbox(2);
  for (std::uint64_t step = 0; step < 5; ++step) deliver(mailbox, 1, step);
  deliver(mailbox, 0, 3);
  const GatheredStep gathered = mailbox.collect(3, Clock::now() + hours(1));
  EXPECT_TRUE(gathered.status.is_ok());
  EXPECT_EQ(gathered.late, 3U);
}

TEST(Mailbox, ASecondMessageOfAStepDoesNotReplaceTheFirst) {
  Mailbox mailbox(1);
  EXPECT_EQ(mailbox.deliver(0, 1, bytes_of(10), Clock::now()), Mailbox::Delivery::kKept);
  EXPECT_EQ(mailbox.deliver(0, 1, bytes_of(20), Clock::now()), Mailbox::Delivery::kLate);
  EXPECT_EQ(mailbox.collect(1, Clock::now()).messages[0], bytes_of(10));
}

TEST(Mailbox, EarlyMessagesAreBoundedAndTheOverflowIsCountedAndNamed) {
  Mailbox mailbox(2);
  for (std::uint64_t step = 0; step < kMaxEarlySteps; ++step) {
    EXPECT_EQ(mailbox.deliver(1, step, {}, Clock::now()), Mailbox::Delivery::kKept);
  }
  EXPECT_EQ(mailbox.deliver(1, kMaxEarlySteps, {}, Clock::now()), Mailbox::Delivery::kFull);
  for (std::uint64_t step = 0; step < kMaxEarlySteps; ++step) {
    mailbox.deliver(0, step, {}, Clock::now());
    EXPECT_TRUE(mailbox.collect(step, Clock::now()).status.is_ok()) << step;
  }
}

TEST(Mailbox, ASenderThatIsTooFarAheadWaitsForRoom) {
  Mailbox mailbox(2);
  for (std::uint64_t step = 0; step < kMaxEarlySteps; ++step) deliver(mailbox, 1, step);
  Mailbox::Delivery delivery = Mailbox::Delivery::kFull;
  std::thread sender([&] { delivery = mailbox.deliver(1, kMaxEarlySteps, {}, Clock::now() + hours(1)); });
  mailbox.deliver(0, 0, {}, Clock::now());
  EXPECT_TRUE(mailbox.collect(0, Clock::now() + hours(1)).status.is_ok());
  sender.join();
  EXPECT_EQ(delivery, Mailbox::Delivery::kKept);
}

TEST(Mailbox, CloseEndsAWait) {
  Mailbox mailbox(2);
  std::thread waiter([&] { EXPECT_FALSE(mailbox.collect(0, Clock::now() + hours(1)).status.is_ok()); });
  mailbox.close();
  waiter.join();
  EXPECT_EQ(mailbox.deliver(1, 1, {}, Clock::now()), Mailbox::Delivery::kClosed);
}

TEST(NameRanks, LongListsAreCutWithTheirCount) {
  EXPECT_EQ(name_ranks({7}), "rank 7");
  EXPECT_EQ(name_ranks({3, 5}), "ranks 3, 5");
  std::vector<std::uint32_t> many;
  for (std::uint32_t rank = 0; rank < 20; ++rank) many.push_back(rank);
  EXPECT_EQ(name_ranks(many), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 4 more");
}

}  // namespace
}  // namespace lockstep::comm
