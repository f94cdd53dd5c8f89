// Faults of the link below. What a sound link gives is the conformance suite's matter.
#include "comm/remote_transport.h"

#include <gtest/gtest.h>

#include "comm/memory_link.h"

namespace lockstep::comm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

std::unique_ptr<RemoteTransport> make(const std::shared_ptr<MemoryWires>& wires, std::uint32_t rank) {
  return std::make_unique<RemoteTransport>("memory", std::make_unique<MemoryLink>(wires, rank), rank,
                                           static_cast<std::uint32_t>(wires->inbox.size()));
}

void unblock(MemoryWires& wires) {
  const std::lock_guard lock(wires.mutex);
  wires.blocked = false;
  wires.unblocked.notify_all();
}

TEST(RemoteTransport, ALinkThatBlocksCostsTheDeadlineAndNoMore) {
  auto wires = std::make_shared<MemoryWires>(2);
  wires->blocked = true;
  auto analyst = make(wires, 0);
  const auto gathered = analyst->gather(3, {}, Clock::now() + milliseconds(20));
  ASSERT_TRUE(gathered.has_value());
  EXPECT_EQ(gathered->status.code(), StatusCode::kDeadlineExceeded);
  const Status closed = analyst->close(Clock::now() + milliseconds(20));
  EXPECT_EQ(closed.message(), "rank 0: close: the carrier is still inside memory and was left behind");
  analyst.reset();
  unblock(*wires);
}

TEST(RemoteTransport, ABrokenLinkIsAnErrorThatNamesRankStepAndLink) {
  auto wires = std::make_shared<MemoryWires>(2);
  wires->broken = true;
  auto analyst = make(wires, 0);
  const auto gathered = analyst->gather(3, {}, Clock::now() + hours(1));
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().message(), "rank 0, step 3: memory: the wire is cut");
  EXPECT_FALSE(analyst->publish({}).is_ok());
  EXPECT_TRUE(analyst->close(Clock::now() + hours(1)).is_ok());
}

TEST(RemoteTransport, ALinkThatBreaksDuringAGatherEndsIt) {
  auto wires = std::make_shared<MemoryWires>(2);
  auto analyst = make(wires, 0);
  std::thread cutter([&] { wires->broken = true; });
  EXPECT_FALSE(analyst->gather(3, {}, Clock::now() + hours(1)).has_value());
  cutter.join();
}

TEST(RemoteTransport, ASenderWithoutRoomDropsTheNewestAndSaysSo) {
  auto wires = std::make_shared<MemoryWires>(2);
  wires->no_room = true;
  auto worker = make(wires, 1);
  Status status;
  std::uint64_t step = 0;
  for (; status.is_ok() && step < 2 * kMaxInFlight; ++step) {
    const auto sent = worker->gather(step, {}, Clock::now() + milliseconds(5));
    ASSERT_TRUE(sent.has_value());
    status = sent->status;
  }
  EXPECT_GE(step, kMaxInFlight);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("this one was dropped"), std::string::npos) << status.message();
}

TEST(RemoteTransport, ForeignBytesOnTheWireAreAnError) {
  auto wires = std::make_shared<MemoryWires>(2);
  wires->inbox[0].push_back(std::vector<std::byte>(100));
  auto analyst = make(wires, 0);
  const auto gathered = analyst->gather(0, {}, Clock::now() + hours(1));
  ASSERT_FALSE(gathered.has_value());
  EXPECT_EQ(gathered.error().code(), StatusCode::kCorrupt);
}

TEST(RemoteTransport, ARecordThatClaimsToComeFromTheAnalystIsAnError) {
  auto wires = std::make_shared<MemoryWires>(2);
  wires->inbox[0].push_back(pack(EnvelopeKind::kRecord, 0, 0, {}));
  auto analyst = make(wires, 0);
  EXPECT_FALSE(analyst->gather(0, {}, Clock::now() + hours(1)).has_value());
}

TEST(RemoteTransport, LostPublicationsAreReportedByTheNextGather) {
  auto wires = std::make_shared<MemoryWires>(2);
  for (std::uint64_t number = 0; number < kMaxPublications + 3; ++number) {
    wires->inbox[1].push_back(pack(EnvelopeKind::kPublication, 0, number, {}));
  }
  auto worker = make(wires, 1);
  ASSERT_TRUE(worker->gather(0, {}, Clock::now() + hours(1)).has_value());
  while (wires->passes == 0) std::this_thread::yield();  // all have arrived
  const auto polled = worker->poll();
  ASSERT_TRUE(polled.has_value() && polled->has_value());
  const auto sent = worker->gather(1, {}, Clock::now() + hours(1));
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->status.message(), "rank 1 lost 3 publications of rank 0: more than 64 waited");
}

}  // namespace
}  // namespace lockstep::comm
