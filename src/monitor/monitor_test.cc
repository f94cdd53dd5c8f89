#include "lockstep/monitor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "monitor/workers_for_test.h"

namespace lockstep::monitor {
namespace {

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

struct Collector : Observer {
  void on_step(const Step& step, const StepStats& stats) override {
    const std::lock_guard lock(mutex);
    steps[step.step] = step;
    all[stats.step] = stats;
  }
  std::mutex mutex;
  std::map<std::uint64_t, Step> steps;
  std::map<std::uint64_t, StepStats> all;
};

TEST(Monitor, MetricsOfFourWorkersMatchTheGradientsTheySaw) {
  Workers workers(4);
  std::vector<std::vector<float>> gradients;
  const std::vector<float> common = random_vector(50000, 99);
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    gradients.push_back(random_vector(50000, rank));
    for (std::size_t i = 0; i < common.size(); ++i) gradients.back()[i] += common[i];
  }
  workers.step(0, gradients);
  workers.flush();
  const StepStats stats = workers.monitors[0]->latest();
  ASSERT_EQ(stats.workers, 4U);
  EXPECT_NEAR(*stats.loss_mean, 2.5, 1e-12);
  EXPECT_NEAR(*stats.loss_std, std::sqrt(1.25), 1e-12);
  EXPECT_NEAR(*stats.loss_range, 3, 1e-12);
  EXPECT_NEAR(*stats.token_loss, (1.0 * 10 + 2.0 * 20 + 3.0 * 30 + 4.0 * 40) / 100, 1e-12);
  double cosine = 0;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < a; ++b) {
      cosine += dot(gradients[a], gradients[b]) /
                std::sqrt(dot(gradients[a], gradients[a]) * dot(gradients[b], gradients[b])) / 6;
    }
    EXPECT_NEAR(*stats.ranks[a].norm, std::sqrt(dot(gradients[a], gradients[a])), 1e-3);
  }
  EXPECT_NEAR(*stats.cosine_mean, cosine, 6 * *stats.cosine_mean_error);
  EXPECT_NEAR(*stats.cosine_pooled, cosine, 1e-3) << "norms agree, so the pooled cosine is the mean pairwise one";
  EXPECT_LT(*stats.reduction_gap, 1e-5);
}

TEST(Monitor, OtherRanksLearnTheMetricsOfRankZero) {
  Workers workers(2);
  const std::vector<std::vector<float>> gradients = {random_vector(1000, 1), random_vector(1000, 2)};
  for (std::uint64_t step = 0; step < 3; ++step) {
    workers.step(step, gradients);
    workers.flush();
  }
  // What rank 0 published of a step reaches rank 1 with its next one at the latest.
  EXPECT_GE(workers.monitors[1]->latest().step, 1U);
  EXPECT_EQ(workers.monitors[1]->latest().workers, 2U);
  EXPECT_EQ(*workers.monitors[1]->latest().loss_mean, 1.5);
}

TEST(Monitor, ExactCosineIsUsedOnTheStepsThatAskForIt) {
  MonitorOptions options = small_options();
  options.exact_cosine_interval = 2;
  Workers workers(2, options);
  auto collector = std::make_shared<Collector>();
  workers.monitors[0]->add_observer(collector);
  const std::vector<float> a = random_vector(3000, 1), b = random_vector(3000, 2);
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<float> direction(a.size());
    for (int rank = 0; rank < 2; ++rank) {
      Monitor& monitor = *workers.monitors[rank];
      monitor.begin_step(step);
      monitor.on_gradient(segment_of(rank == 0 ? a : b));
      EXPECT_EQ(monitor.wants_direction_sum(), step == 0);
      for (std::size_t i = 0; i < a.size(); ++i) {
        direction[i] += static_cast<float>((rank == 0 ? a : b)[i] / monitor.gradient_norm());
      }
    }
    for (auto& monitor : workers.monitors) {
      if (monitor->wants_direction_sum()) monitor->on_direction_sum(segment_of(direction));
      monitor->end_step();
    }
    workers.flush();
  }
  const double exact = dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
  ASSERT_TRUE(collector->all[0].cosine_exact);
  EXPECT_NEAR(*collector->all[0].cosine_mean, exact, 1e-6);
  EXPECT_FALSE(collector->all[1].cosine_exact);
  EXPECT_GT(*collector->all[1].cosine_mean_error, 0);
}

TEST(Monitor, WatchesEveryNthStepAndSettingsChangeWhileItRuns) {
  MonitorOptions options = small_options();
  options.interval = 3;
  Workers workers(1, options);
  auto collector = std::make_shared<Collector>();
  Monitor& monitor = *workers.monitors[0];
  monitor.add_observer(collector);
  const std::vector<std::vector<float>> gradients = {random_vector(100, 1)};
  for (std::uint64_t step = 0; step < 7; ++step) workers.step(step, gradients);
  ASSERT_TRUE(monitor.set(Setting::kInterval, 1).is_ok());
  ASSERT_TRUE(monitor.set(Setting::kSketchInterval, 2).is_ok());
  for (std::uint64_t step = 7; step < 9; ++step) workers.step(step, gradients);
  workers.flush();
  const std::lock_guard lock(collector->mutex);
  std::vector<std::uint64_t> seen;
  for (const auto& [number, step] : collector->steps) seen.push_back(number);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 3, 6, 7, 8}));
  EXPECT_TRUE(collector->steps[7].records[0].gradient.sketch.empty());
  EXPECT_FALSE(collector->steps[8].records[0].gradient.sketch.empty());
  EXPECT_FALSE(monitor.set(Setting::kInterval, 0).is_ok());
}

TEST(Monitor, RecordCarriesStateFingerprintsAndTokens) {
  MonitorOptions options = small_options();
  options.layout.max_fingerprints = 4;
  Workers workers(1, options);
  auto collector = std::make_shared<Collector>();
  Monitor& monitor = *workers.monitors[0];
  monitor.add_observer(collector);
  const std::vector<float> weights = random_vector(777, 5);
  const std::vector<std::uint64_t> batch = {1, 2, 3};
  monitor.begin_step(0);
  EXPECT_TRUE(monitor.wants_state()) << "step 0 is always audited";
  monitor.on_batch(batch);
  monitor.on_batch(batch);
  monitor.on_loss(1.5, 100);
  monitor.on_loss(std::nan(""), 50);
  monitor.on_state(StateChannel::kWeights, segment_of(weights));
  monitor.on_state(StateChannel::kRng, 42);
  monitor.end_step();
  workers.flush();
  const Record record = collector->steps.at(0).records.at(0);
  EXPECT_EQ(record.fingerprints, (std::vector<std::uint64_t>{1, 2, 3, 1}));
  EXPECT_EQ(record.fingerprint_count, 6U);
  EXPECT_EQ(record.loss_count, 1U);
  EXPECT_EQ(record.loss_nonfinite, 1U);
  EXPECT_EQ(record.tokens, 100U);
  EXPECT_EQ(record.state[0].hash, content_hash(segment_of(weights)));
  EXPECT_EQ(record.state[3].hash, 42U);
  EXPECT_FALSE(record.state[1].observed);
  EXPECT_FALSE(record.gradient.observed);
  EXPECT_GT(record.timings.step_ns, 0U);
}

TEST(Monitor, BucketsInAnyOrderAndSplitGiveTheSameRecord) {
  Workers workers(2);
  auto collector = std::make_shared<Collector>();
  workers.monitors[0]->add_observer(collector);
  const std::vector<float> gradient = random_vector(10007, 3);
  workers.monitors[0]->begin_step(0);
  workers.monitors[0]->on_gradient(segment_of(gradient));
  workers.monitors[0]->end_step();
  workers.monitors[1]->begin_step(0);
  for (const auto& [begin, end] : {std::pair{5000, 10007}, {0, 13}, {13, 5000}}) {
    workers.monitors[1]->on_gradient({0, static_cast<std::uint64_t>(begin), gradient.data() + begin,
                                      static_cast<std::uint64_t>(end - begin), DType::kFloat32});
  }
  workers.monitors[1]->end_step();
  workers.flush();
  const auto& records = collector->steps.at(0).records;
  EXPECT_EQ(records[0].gradient.hash, records[1].gradient.hash);
  EXPECT_NEAR(*collector->all.at(0).cosine_mean, 1, 1e-5);
}

TEST(Monitor, DigestsMadeElsewhereCountLikeTheirSegments) {
  Workers workers(2);
  auto collector = std::make_shared<Collector>();
  workers.monitors[0]->add_observer(collector);
  const std::vector<float> gradient = random_vector(9001, 8);
  const Segment segment = segment_of(gradient);
  DigestOptions options;
  options.k = 4096;  // four times the layout's: folded on the way in
  const Digest digest = *lockstep::digest(std::span(&segment, 1), options);
  Digest scalars = digest;
  scalars.sketch.clear();
  for (std::uint64_t step = 0; step < 2; ++step) {
    workers.monitors[0]->begin_step(step);
    workers.monitors[0]->on_gradient(segment);
    workers.monitors[0]->on_reduced(segment);
    workers.monitors[0]->end_step();
    workers.monitors[1]->begin_step(step);
    workers.monitors[1]->on_gradient(step == 0 ? digest : scalars);
    workers.monitors[1]->on_reduced(digest);
    workers.monitors[1]->end_step();
    workers.flush();
    const auto& records = collector->steps.at(step).records;
    EXPECT_EQ(records[0].gradient.hash, records[1].gradient.hash);
    EXPECT_EQ(records[0].reduced.hash, records[1].reduced.hash);
    EXPECT_NEAR(records[0].gradient.sum_squares, records[1].gradient.sum_squares, 1e-6 * digest.sum_squares);
  }
  EXPECT_NEAR(*collector->all.at(0).cosine_mean, 1, 1e-5);
  EXPECT_TRUE(collector->steps.at(1).records[1].gradient.sketch.empty());
  Digest odd = digest;
  odd.sketch.resize(300);
  workers.monitors[0]->begin_step(2);
  workers.monitors[0]->on_gradient(odd);
  EXPECT_EQ(workers.monitors[0]->health().rejected_calls, 1U);
}

TEST(Monitor, HostMayCarryTheBytesItself) {
  std::vector<std::unique_ptr<Monitor>> monitors;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    monitors.push_back(std::move(*Monitor::create(rank, 2, small_options(), nullptr)));
  }
  EXPECT_EQ(monitors[0]->pack_step().error().code(), StatusCode::kUnavailable);
  std::vector<std::vector<std::byte>> packed;
  for (auto& monitor : monitors) {
    monitor->begin_step(7);
    monitor->on_loss(2, 1);
    monitor->end_step();
    packed.push_back(*monitor->pack_step());
  }
  const std::vector<std::span<const std::byte>> messages(packed.begin(), packed.end());
  ASSERT_TRUE(monitors[0]->ingest_step(messages).is_ok());
  ASSERT_TRUE(monitors[0]->flush(20s).is_ok());
  EXPECT_EQ(monitors[0]->latest().step, 7U);
  EXPECT_EQ(monitors[0]->latest().workers, 2U);
  EXPECT_EQ(*monitors[0]->latest().loss_mean, 2.0);
  EXPECT_FALSE(monitors[0]->ingest_step(std::span(messages).first(1)).is_ok());
}

TEST(Monitor, CreationNamesWhatIsWrong) {
  const auto message = [](std::uint32_t rank, std::uint32_t world, MonitorOptions options) {
    auto monitor = Monitor::create(rank, world, options, nullptr);
    return monitor ? std::string() : monitor.error().message();
  };
  EXPECT_NE(message(2, 2, {}).find("rank 2"), std::string::npos);
  MonitorOptions options;
  options.layout.k = 1000;
  EXPECT_NE(message(0, 1, options).find("k = 1000"), std::string::npos);
  options = {};
  options.interval = 0;
  EXPECT_NE(message(0, 1, options).find("interval"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::monitor
