#include "comm/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>

namespace lockstep::comm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr std::size_t kSmall = 48 << 10;
constexpr std::size_t kLarge = 1 << 20;

Clock::time_point must_come() {
  return Clock::now() + minutes(1);
}
Clock::time_point must_not_be_waited_for() {
  return Clock::now() + hours(1);
}
Clock::time_point will_not_come() {
  return Clock::now() + milliseconds(250);
}

std::vector<std::byte> content(std::uint32_t rank, std::uint64_t step, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  std::uint64_t state = (std::uint64_t{rank} << 32) + step * 2654435761U + 12345;
  for (std::byte& byte : message) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return message;
}

std::uint32_t last_rank(const Member& member) {
  return member.transport.size() - 1;
}
bool is_last(const Member& member) {
  return member.transport.rank() == last_rank(member) && last_rank(member) != 0;
}

void send(Member& member, std::uint64_t step, std::size_t bytes) {
  const auto sent = member.transport.gather(step, content(member.transport.rank(), step, bytes), must_come());
  ASSERT_TRUE(sent.has_value()) << sent.error().message();
  EXPECT_EQ(sent->step, step);
  EXPECT_TRUE(sent->messages.empty());
  EXPECT_TRUE(sent->status.is_ok()) << sent->status.message();
}

// As rank 0: gathers `step`, with a message of its own.
GatheredStep collect(Member& member, std::uint64_t step, std::size_t bytes, Clock::time_point deadline) {
  auto gathered = member.transport.gather(step, content(0, step, bytes), deadline);
  if (!gathered) {
    ADD_FAILURE() << gathered.error().message();
    return {};
  }
  EXPECT_EQ(gathered->step, step);
  EXPECT_EQ(gathered->messages.size(), member.transport.size());
  EXPECT_EQ(gathered->arrived.size(), member.transport.size());
  return *std::move(gathered);
}

using SizeOf = std::function<std::size_t(std::uint32_t rank)>;

void expect_complete(const Member& member, const GatheredStep& gathered, const SizeOf& size_of) {
  EXPECT_TRUE(gathered.status.is_ok()) << gathered.status.message();
  for (std::uint32_t rank = 0; rank < member.transport.size() && rank < gathered.messages.size(); ++rank) {
    EXPECT_TRUE(gathered.arrived[rank]) << "rank " << rank << ", step " << gathered.step;
    EXPECT_TRUE(gathered.messages[rank] == content(rank, gathered.step, size_of(rank)))
        << "wrong content of rank " << rank << ", step " << gathered.step;
  }
}

void expect_only_missing(const Member& member, const GatheredStep& gathered, std::uint32_t missing) {
  EXPECT_FALSE(gathered.status.is_ok());
  const std::string named =
      "step " + std::to_string(gathered.step) + ": no record from rank " + std::to_string(missing);
  EXPECT_EQ(gathered.status.message().find(named), 0U) << gathered.status.message();
  for (std::uint32_t rank = 0; rank < member.transport.size() && rank < gathered.arrived.size(); ++rank) {
    EXPECT_EQ(gathered.arrived[rank], rank != missing) << "rank " << rank << ", step " << gathered.step;
  }
}

// One full step of all ranks.
void exchange(Member& member, std::uint64_t step, const SizeOf& size_of) {
  const std::uint32_t rank = member.transport.rank();
  if (rank != 0) return send(member, step, size_of(rank));
  expect_complete(member, collect(member, step, size_of(0), must_come()), size_of);
}

void all_messages_arrive_with_their_content(Member& member) {
  const std::size_t sizes[] = {0, 1, 1021, kLarge};
  for (std::uint64_t step = 0; step < std::size(sizes); ++step) {
    exchange(member, step, [&](std::uint32_t) { return sizes[step]; });
  }
}

void sizes_differ_by_rank_and_step(Member& member) {
  for (std::uint64_t step = 3; step < 40; step += 1 + step % 3) {
    exchange(member, step, [&](std::uint32_t rank) { return (rank * 7919 + step * 104729) % 20011 * (rank % 3); });
  }
}

void many_steps_with_random_delays(Member& member) {
  const std::uint32_t seed = 20240607 + member.transport.rank();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (std::uint64_t step = 0; step < 200; ++step) {
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    exchange(member, step, [&](std::uint32_t rank) { return (step * 31 + rank) % 4096; });
  }
}

void early_messages_wait_for_their_step(Member& member) {
  const SizeOf size_of = [](std::uint32_t rank) { return rank * 100; };
  if (member.transport.rank() != 0) {
    for (std::uint64_t step = 0; step < 20; ++step) send(member, step, size_of(member.transport.rank()));
  }
  member.meet();
  if (member.transport.rank() == 0) {
    for (std::uint64_t step = 0; step < 20; ++step) {
      expect_complete(member, collect(member, step, size_of(0), must_come()), size_of);
    }
  }
  member.meet();
}

void late_messages_are_dropped_and_counted(Member& member) {
  const SizeOf size_of = [](std::uint32_t) { return 64; };
  if (member.transport.rank() == 0) {
    const GatheredStep none = collect(member, 0, 64, will_not_come());
    EXPECT_EQ(none.status.is_ok(), member.transport.size() == 1);
    EXPECT_EQ(std::count(none.arrived.begin(), none.arrived.end(), true), 1);
  }
  member.meet();
  if (member.transport.rank() != 0) {
    send(member, 0, 64);
    send(member, 1, 64);
  } else {
    const GatheredStep gathered = collect(member, 1, 64, must_come());
    expect_complete(member, gathered, size_of);
    EXPECT_EQ(gathered.late, member.transport.size() - 1);
  }
  member.meet();
}

void skipped_step_is_named_without_waiting_and_the_rank_is_heard_again(Member& member) {
  const SizeOf size_of = [](std::uint32_t) { return 10; };
  exchange(member, 0, size_of);
  if (member.transport.rank() != 0) {
    if (!is_last(member)) send(member, 1, 10);
    send(member, 2, 10);
  } else {
    const GatheredStep skipped = collect(member, 1, 10, must_not_be_waited_for());
    if (member.transport.size() > 1) expect_only_missing(member, skipped, last_rank(member));
    expect_complete(member, collect(member, 2, 10, must_come()), size_of);
  }
  exchange(member, 3, size_of);
}

// Steps 1 to 4 lack the last rank: the first two cost a deadline, the others must not.
void silent_rank_is_named_then_not_waited_for_then_heard_again(Member& member) {
  const SizeOf size_of = [](std::uint32_t) { return 500; };
  constexpr std::uint64_t kSilentUntil = 5;
  constexpr std::uint64_t kEnd = 60;
  exchange(member, 0, size_of);
  if (member.transport.rank() != 0 && !is_last(member)) {
    for (std::uint64_t step = 1; step < kEnd; ++step) send(member, step, 500);
  }
  member.meet();
  if (member.transport.rank() == 0) {
    for (std::uint64_t step = 1; step < kSilentUntil; ++step) {
      const GatheredStep gathered = collect(member, step, 500, step < 3 ? will_not_come() : must_not_be_waited_for());
      if (member.transport.size() > 1) expect_only_missing(member, gathered, last_rank(member));
    }
  }
  member.meet();
  if (is_last(member)) {
    for (std::uint64_t step = kSilentUntil; step < kEnd; ++step) send(member, step, 500);
  }
  if (member.transport.rank() == 0) {
    std::uint64_t step = kSilentUntil;
    bool heard = false;
    for (; step < kEnd - 1 && !heard; ++step) {
      std::this_thread::sleep_for(milliseconds(20));
      const GatheredStep gathered = collect(member, step, 500, must_come());
      heard = gathered.arrived[last_rank(member)] || gathered.late > 0;
    }
    EXPECT_TRUE(heard) << "rank " << last_rank(member) << " spoke again, but was not heard until step " << step;
    for (; step < kEnd; ++step) expect_complete(member, collect(member, step, 500, must_come()), size_of);
  }
  member.meet();
}

void closed_rank_is_named_without_waiting(Member& member) {
  exchange(member, 0, [](std::uint32_t) { return 10; });
  if (is_last(member)) {
    EXPECT_TRUE(member.transport.close(must_come()).is_ok());
    return;
  }
  for (std::uint64_t step = 1; step < 4; ++step) {
    if (member.transport.rank() != 0) {
      send(member, step, 10);
      continue;
    }
    const GatheredStep gathered = collect(member, step, 10, must_not_be_waited_for());
    if (member.transport.size() == 1) continue;
    expect_only_missing(member, gathered, last_rank(member));
    EXPECT_NE(gathered.status.message().find("closed the transport"), std::string::npos) << gathered.status.message();
  }
}

void closed_analyst_does_not_fail_the_others(Member& member) {
  exchange(member, 0, [](std::uint32_t) { return 10; });
  if (member.transport.rank() == 0) {
    EXPECT_TRUE(member.transport.close(will_not_come()).is_ok());
    return;
  }
  std::uint64_t step = 1;
  Status status;
  for (const auto end = must_come(); status.is_ok() && Clock::now() < end; ++step) {
    const auto sent = member.transport.gather(step, content(member.transport.rank(), step, 10), must_come());
    ASSERT_TRUE(sent.has_value()) << sent.error().message();
    status = sent->status;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("rank 0 has closed its transport"), std::string::npos) << status.message();
}

void publications_come_in_order(Member& member) {
  constexpr std::uint64_t kPublications = 20;
  const auto size_of = [](std::uint64_t number) { return number * number * 13 % 3001; };
  std::uint64_t taken = 0;
  const auto take = [&] {
    for (;;) {
      auto polled = member.transport.poll();
      ASSERT_TRUE(polled.has_value()) << polled.error().message();
      if (!polled->has_value()) return;
      ASSERT_NE(member.transport.rank(), 0U) << "rank 0 polls nothing";
      EXPECT_TRUE(**polled == content(77, taken, size_of(taken))) << "publication " << taken;
      ++taken;
    }
  };
  for (std::uint64_t step = 0; step < 2 * kPublications; ++step) {
    const bool publishes = step < kPublications && step % 2 == 0;  // two at a time
    for (std::uint64_t number = step; publishes && number < step + 2; ++number) {
      const Status status = member.transport.publish(content(77, number, size_of(number)));
      EXPECT_EQ(status.code(), member.transport.rank() == 0 ? StatusCode::kOk : StatusCode::kFailedPrecondition);
    }
    exchange(member, step, [](std::uint32_t) { return 32; });
    take();
  }
  if (member.transport.rank() == 0) return;
  for (const auto end = must_come(); taken < kPublications && Clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(1));
    take();
  }
  EXPECT_EQ(taken, kPublications);
}

void steps_must_rise(Member& member) {
  exchange(member, 7, [](std::uint32_t) { return 8; });
  for (const std::uint64_t step : {7, 6, 0}) {
    const auto refused = member.transport.gather(step, {}, must_come());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  }
  exchange(member, 8, [](std::uint32_t) { return 8; });
}

void close_is_idempotent_and_later_calls_are_refused(Member& member) {
  exchange(member, 0, [](std::uint32_t) { return 8; });
  EXPECT_TRUE(member.transport.close(must_come()).is_ok());
  EXPECT_TRUE(member.transport.close(must_come()).is_ok());
  EXPECT_TRUE(member.transport.close(Clock::now()).is_ok());
  const auto gathered = member.transport.gather(1, {}, must_come());
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(member.transport.publish({}).code(), StatusCode::kFailedPrecondition);
  const auto polled = member.transport.poll();
  ASSERT_FALSE(polled.has_value());
  EXPECT_EQ(polled.error().code(), StatusCode::kFailedPrecondition);
}

void closing_an_unused_transport_is_fine(Member& member) {
  EXPECT_TRUE(member.transport.close(must_come()).is_ok());
}

constexpr Scenario kSuite[] = {
    {"AllMessagesArriveWithTheirContent", false, kLarge, all_messages_arrive_with_their_content},
    {"SizesDifferByRankAndStep", false, kSmall, sizes_differ_by_rank_and_step},
    {"ManyStepsWithRandomDelays", false, kSmall, many_steps_with_random_delays},
    {"PublicationsComeInOrder", false, kSmall, publications_come_in_order},
    {"StepsMustRise", false, kSmall, steps_must_rise},
    {"CloseIsIdempotentAndLaterCallsAreRefused", false, kSmall, close_is_idempotent_and_later_calls_are_refused},
    {"ClosingAnUnusedTransportIsFine", false, kSmall, closing_an_unused_transport_is_fine},
    {"EarlyMessagesWaitForTheirStep", true, kSmall, early_messages_wait_for_their_step},
    {"LateMessagesAreDroppedAndCounted", true, kSmall, late_messages_are_dropped_and_counted},
    {"SkippedStepIsNamedWithoutWaitingAndTheRankIsHeardAgain", true, kSmall,
     skipped_step_is_named_without_waiting_and_the_rank_is_heard_again},
    {"SilentRankIsNamedThenNotWaitedForThenHeardAgain", true, kSmall,
     silent_rank_is_named_then_not_waited_for_then_heard_again},
    {"ClosedRankIsNamedWithoutWaiting", true, kSmall, closed_rank_is_named_without_waiting},
    {"ClosedAnalystDoesNotFailTheOthers", true, kSmall, closed_analyst_does_not_fail_the_others},
};

}  // namespace

std::span<const Scenario> conformance_suite() {
  return kSuite;
}

void run_scenario(const Scenario& scenario, Member member) {
  SCOPED_TRACE("rank " + std::to_string(member.transport.rank()) + " of " + std::to_string(member.transport.size()));
  scenario.body(member);
  const Status closed = member.transport.close(must_come());
  EXPECT_TRUE(closed.is_ok()) << closed.message();
}

}  // namespace lockstep::comm
