// Host safety: whatever breaks in or around the monitor, the training that it watches is not touched.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "lockstep/monitor.h"
#include "monitor/workers_for_test.h"

namespace lockstep::monitor {
namespace {

// A transport that fails in the way it is told to.
struct BrokenTransport : Transport {
  enum class Way { kError, kThrow, kHang };
  explicit BrokenTransport(Way way) : way_(way) {}
  std::uint32_t rank() const noexcept override { return 0; }
  std::uint32_t size() const noexcept override { return 1; }
  Result<GatheredStep> gather(std::uint64_t step, std::span<const std::byte>, Clock::time_point) override {
    if (way_ == Way::kThrow) throw std::runtime_error("wire cut");
    if (way_ == Way::kHang) std::this_thread::sleep_for(3s);
    return Status(StatusCode::kUnavailable, "step " + std::to_string(step) + ": wire cut");
  }
  Status publish(std::span<const std::byte>) override { return Status::ok(); }
  Result<std::optional<std::vector<std::byte>>> poll() override { return std::optional<std::vector<std::byte>>(); }
  Status close(Clock::time_point) override { return Status::ok(); }
  Way way_;
};

// A tiny gradient descent that a monitor may watch; its weights are the host's result.
std::vector<float> train(Monitor* monitor, int steps) {
  std::vector<float> weights = random_vector(5000, 1), gradient(5000);
  for (int step = 0; step < steps; ++step) {
    if (monitor != nullptr) monitor->begin_step(step);
    for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = 2 * weights[i] + 0.01F * static_cast<float>(i % 7);
    if (monitor != nullptr) {
      monitor->on_gradient(segment_of(gradient));
      monitor->on_reduced(segment_of(gradient));
      monitor->on_state(StateChannel::kWeights, segment_of(weights));
    }
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.05F * gradient[i];
    if (monitor != nullptr) monitor->end_step();
  }
  return weights;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(HostSafety, WatchedTrainingHasTheBitsOfUnwatchedTraining) {
  Workers workers(1);
  EXPECT_TRUE(same_bits(train(workers.monitors[0].get(), 30), train(nullptr, 30)));
  workers.flush();
  EXPECT_GT(workers.monitors[0]->health().steps_analysed, 0U);
}

class BrokenTransportTest : public testing::TestWithParam<BrokenTransport::Way> {};

TEST_P(BrokenTransportTest, DisablesTheMonitorOnceAndNotTheTraining) {
  Log log;
  MonitorOptions options = small_options();
  options.log = log.sink();
  auto monitor = std::move(*Monitor::create(0, 1, options, std::make_unique<BrokenTransport>(GetParam())));
  EXPECT_TRUE(same_bits(train(monitor.get(), 50), train(nullptr, 50)));
  EXPECT_TRUE(monitor->flush(10s).is_ok());
  const Health health = monitor->health();
  EXPECT_FALSE(health.enabled);
  EXPECT_NE(health.reason.message().find("wire cut"), std::string::npos) << health.reason.message();
  EXPECT_EQ(log.size(), 1U) << "one line, once";
  EXPECT_FALSE(monitor->watching());
}

INSTANTIATE_TEST_SUITE_P(Ways, BrokenTransportTest,
                         testing::Values(BrokenTransport::Way::kError, BrokenTransport::Way::kThrow,
                                         BrokenTransport::Way::kHang));

TEST(HostSafety, TransportThatHangsIsLeftBehindAtClose) {
  MonitorOptions options = small_options();
  Log log;
  options.log = log.sink();
  auto monitor =
      std::move(*Monitor::create(0, 1, options, std::make_unique<BrokenTransport>(BrokenTransport::Way::kHang)));
  train(monitor.get(), 3);
  const Status status = monitor->close(50ms);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  monitor.reset();
  // The thread that was left behind ends by itself, and says why: the log must still be there for it.
  for (int i = 0; i < 200 && log.size() == 0; ++i) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(log.size(), 1U);
}

struct FailingObserver : Observer {
  void on_step(const Step&, const StepStats&) override {
    ++calls;
    throw std::runtime_error("no space left");
  }
  std::atomic<int> calls{0};
};

TEST(HostSafety, FailingObserverIsRemovedAndTheOthersGoOn) {
  Log log;
  MonitorOptions options = small_options();
  options.log = log.sink();
  Workers workers(1, options);
  auto failing = std::make_shared<FailingObserver>();
  workers.monitors[0]->add_observer(failing);
  for (int step = 0; step < 4; ++step) {
    workers.step(step, {random_vector(100, 1)});
    workers.flush();
  }
  EXPECT_EQ(failing->calls.load(), 1);
  const Health health = workers.monitors[0]->health();
  EXPECT_TRUE(health.enabled);
  EXPECT_EQ(health.observer_failures, 1U);
  EXPECT_EQ(health.steps_analysed, 4U);
  EXPECT_EQ(log.size(), 1U);
}

struct SlowObserver : Observer {
  void on_step(const Step& step, const StepStats&) override {
    std::this_thread::sleep_for(100ms);
    newest = step.records[0].drops;
  }
  std::atomic<std::uint64_t> newest{0};
};

TEST(HostSafety, SlowObserverCostsDropsThatAreCountedAndReported) {
  MonitorOptions options = small_options();
  options.queue_capacity = 2;
  Workers workers(1, options);
  auto slow = std::make_shared<SlowObserver>();
  workers.monitors[0]->add_observer(slow);
  for (int step = 0; step < 40; ++step) workers.step(step, {random_vector(100, 1)});
  workers.flush();
  workers.step(40, {random_vector(100, 1)});
  workers.flush();
  const Health health = workers.monitors[0]->health();
  EXPECT_GT(health.drops_queue, 0U);
  EXPECT_EQ(health.steps_analysed + health.drops_queue, 41U) << "nothing is lost silently";
  EXPECT_EQ(slow->newest.load(), health.drops_queue) << "the next record carries the count";
  EXPECT_NE(health.last_problem.find("dropped"), std::string::npos);
}

TEST(HostSafety, RankWithAnotherLayoutIsNamedAndTheOthersAreAnalysed) {
  auto transports = make_in_process_transports(3);
  std::vector<std::unique_ptr<Monitor>> monitors;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    MonitorOptions options = small_options();
    if (rank == 2) options.layout.k = 512;
    monitors.push_back(std::move(*Monitor::create(rank, 3, options, std::move(transports[rank]))));
    monitors[rank]->begin_step(0);
    monitors[rank]->on_loss(1);
    monitors[rank]->end_step();
  }
  for (int i = 2; i >= 0; --i) ASSERT_TRUE(monitors[i]->flush(20s).is_ok());
  const Health health = monitors[0]->health();
  EXPECT_EQ(health.rejected_records, 1U);
  EXPECT_NE(health.last_problem.find("rank 2"), std::string::npos) << health.last_problem;
  EXPECT_EQ(monitors[0]->latest().workers, 2U);
}

TEST(HostSafety, RankThatSkipsAStepIsMissedNotWaitedForForEver) {
  MonitorOptions options = small_options();
  options.deadline = 200ms;
  Workers workers(3, options);
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == 1 && step == 1) continue;
      workers.monitors[rank]->begin_step(step);
      workers.monitors[rank]->on_loss(1);
      workers.monitors[rank]->end_step();
    }
    workers.flush();
    EXPECT_EQ(workers.monitors[0]->latest().workers, step == 1 ? 2U : 3U);
  }
  const Health health = workers.monitors[0]->health();
  EXPECT_EQ(health.missing_records, 1U);
  EXPECT_EQ(health.steps_analysed, 3U);
  EXPECT_NE(health.last_problem.find("1"), std::string::npos) << health.last_problem;
}

TEST(HostSafety, CallsOutOfOrderAreCountedAndIgnored) {
  Workers workers(1);
  Monitor& monitor = *workers.monitors[0];
  const std::vector<float> gradient = random_vector(100, 1);
  monitor.on_gradient(segment_of(gradient));
  monitor.on_loss(1);
  monitor.end_step();
  monitor.begin_step(0);
  monitor.begin_step(1);
  monitor.on_gradient({0, 0, nullptr, 10, DType::kFloat32});
  monitor.on_gradient({0, 0, gradient.data(), 10, static_cast<DType>(99)});
  monitor.on_state(static_cast<StateChannel>(200), 1);
  monitor.end_step();
  workers.flush();
  const Health health = monitor.health();
  EXPECT_EQ(health.rejected_calls, 7U);
  EXPECT_TRUE(health.enabled);
  EXPECT_EQ(health.steps_analysed, 1U);
  EXPECT_EQ(monitor.latest().step, 1U);
}

TEST(HostSafety, ForkedChildMayUseAndDestroyTheInheritedMonitor) {
  auto workers = std::make_unique<Workers>(1);
  workers->step(0, {random_vector(1000, 1)});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang is a failure, not a hang of the test
    workers->step(1, {random_vector(1000, 1)});
    bool good = !workers->monitors[0]->health().enabled && !workers->monitors[0]->watching();
    good = good && workers->monitors[0]->flush(1s).is_ok() && workers->monitors[0]->close(1s).is_ok();
    workers.reset();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  workers->step(1, {random_vector(1000, 1)});
  workers->flush();
  EXPECT_EQ(workers->monitors[0]->health().steps_analysed, 2U) << "the parent goes on";
}

TEST(HostSafety, DestructionInMidStepIsSafe) {
  for (int trial = 0; trial < 20; ++trial) {
    Workers workers(2);
    workers.step(0, {random_vector(1000, 1), random_vector(1000, 2)});
    workers.monitors[0]->begin_step(1);
    workers.monitors[0]->on_gradient(segment_of(random_vector(1000, 1)));
  }
}

TEST(HostSafety, GradientsShownFromSeveralThreadsAreAllCounted) {
  Workers workers(1);
  Monitor& monitor = *workers.monitors[0];
  const std::vector<float> gradient = random_vector(40000, 1);
  monitor.begin_step(0);
  std::vector<std::thread> threads;
  for (std::uint64_t part = 0; part < 4; ++part) {
    threads.emplace_back([&, part] {
      monitor.on_gradient({0, part * 10000, gradient.data() + part * 10000, 10000, DType::kFloat32});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_NEAR(monitor.gradient_norm(), 200, 3);
  monitor.end_step();
  workers.flush();
  EXPECT_EQ(monitor.health().rejected_calls, 0U);
}

}  // namespace
}  // namespace lockstep::monitor
