#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

namespace {

lockstep_segment segment_of(const std::vector<float>& values) {
  return {0, LOCKSTEP_FLOAT32, 0, values.data(), values.size()};
}

std::string last_error() {
  return lockstep_last_error();
}

TEST(CApi, DigestOfASmallVectorIsWhatOneCountsByHand) {
  const std::vector<float> values = {3, -4, std::numeric_limits<float>::infinity(), std::nanf(""), 0};
  const lockstep_segment segment = segment_of(values);
  lockstep_digest digest = {};
  digest.size = sizeof(digest);
  std::vector<double> sketch(4096);
  ASSERT_EQ(lockstep_digest_segments(&segment, 1, nullptr, &digest, sketch.data()), LOCKSTEP_OK) << last_error();
  EXPECT_EQ(digest.count, 5U);
  EXPECT_EQ(digest.sum_squares, 25.0);
  EXPECT_EQ(digest.max_abs, 4.0);
  EXPECT_EQ(digest.nonfinite, 2U);
  double energy = 0;
  for (double bin : sketch) energy += bin * bin;
  EXPECT_NEAR(energy, 25, 1e-9) << "two elements of one block never share a bin";
  uint64_t hash = 0;
  ASSERT_EQ(lockstep_hash_segments(&segment, 1, 1, &hash), LOCKSTEP_OK);
  EXPECT_EQ(hash, digest.hash);
}

TEST(CApi, BadArgumentsAreNamed) {
  const std::vector<float> values(10);
  lockstep_segment segment = segment_of(values);
  lockstep_digest digest = {};
  EXPECT_EQ(lockstep_digest_segments(&segment, 1, nullptr, &digest, nullptr), LOCKSTEP_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("size"), std::string::npos) << last_error();
  digest.size = sizeof(digest);
  segment.dtype = 1000;
  EXPECT_EQ(lockstep_digest_segments(&segment, 1, nullptr, &digest, nullptr), LOCKSTEP_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("1000"), std::string::npos) << last_error();
  segment = segment_of(values);
  segment.data = nullptr;
  EXPECT_EQ(lockstep_digest_segments(&segment, 1, nullptr, &digest, nullptr), LOCKSTEP_INVALID_ARGUMENT);
  EXPECT_EQ(lockstep_digest_segments(nullptr, 1, nullptr, &digest, nullptr), LOCKSTEP_INVALID_ARGUMENT);
  lockstep_digest_options options;
  lockstep_digest_options_init(&options);
  options.k = 1000;
  segment = segment_of(values);
  EXPECT_EQ(lockstep_digest_segments(&segment, 1, &options, &digest, nullptr), LOCKSTEP_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("1000"), std::string::npos) << last_error();
  EXPECT_EQ(lockstep_digest_segments(&segment, 1, nullptr, &digest, nullptr), LOCKSTEP_OK);
  EXPECT_EQ(last_error(), "") << "a call that works clears the message";
}

TEST(CApi, NullMonitorIsHarmlessInTraining) {
  lockstep_begin_step(nullptr, 0);
  lockstep_on_gradient(nullptr, nullptr);
  lockstep_on_loss(nullptr, 1, 1);
  lockstep_end_step(nullptr);
  lockstep_monitor_destroy(nullptr);
  EXPECT_EQ(lockstep_watching(nullptr), 0);
  EXPECT_EQ(lockstep_flush(nullptr, 1), LOCKSTEP_INVALID_ARGUMENT);
}

TEST(CApi, StructsOfAnOlderHeaderAreUnderstood) {
  // As if compiled against a header whose options ended after `world`.
  lockstep_monitor_options options;
  lockstep_monitor_options_init(&options);
  options.rank = 1;
  options.world = 3;
  options.k = 12345;  // past the old end: must not be read
  options.size = offsetof(lockstep_monitor_options, k);
  lockstep_monitor* monitor = nullptr;
  ASSERT_EQ(lockstep_monitor_create(&options, &monitor), LOCKSTEP_OK) << last_error();
  lockstep_health health = {};
  health.size = offsetof(lockstep_health, steps_sent);
  health.steps_sent = 77;
  lockstep_begin_step(monitor, 0);
  ASSERT_EQ(lockstep_get_health(monitor, &health), LOCKSTEP_OK);
  EXPECT_EQ(health.steps_begun, 1U);
  EXPECT_EQ(health.steps_sent, 77U) << "nothing is written past the caller's struct";
  lockstep_monitor_destroy(monitor);
}

TEST(CApi, GroupOfThreadsGivesMetricsThroughTheCallback) {
  lockstep_group* group = nullptr;
  ASSERT_EQ(lockstep_group_create(2, &group), LOCKSTEP_OK);
  std::atomic<int> calls{0};
  lockstep_monitor* monitors[2] = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    lockstep_monitor_options options;
    lockstep_monitor_options_init(&options);
    options.rank = rank;
    options.world = 2;
    options.group = group;
    options.on_step = [](const lockstep_step_stats* stats, void* user) {
      if (stats->workers == 2 && stats->loss_range == 1) ++*static_cast<std::atomic<int>*>(user);
    };
    options.on_step_user = &calls;
    ASSERT_EQ(lockstep_monitor_create(&options, &monitors[rank]), LOCKSTEP_OK) << last_error();
    if (rank == 0) {
      lockstep_monitor* second = nullptr;
      EXPECT_EQ(lockstep_monitor_create(&options, &second), LOCKSTEP_FAILED_PRECONDITION) << "rank 0 is taken";
    }
  }
  lockstep_group_destroy(group);
  for (uint64_t step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      lockstep_begin_step(monitors[rank], step);
      EXPECT_EQ(lockstep_watching(monitors[rank]), 1);
      lockstep_on_loss(monitors[rank], rank, 10);
      lockstep_end_step(monitors[rank]);
    }
    for (int rank = 1; rank >= 0; --rank) EXPECT_EQ(lockstep_flush(monitors[rank], 10000), LOCKSTEP_OK);
  }
  EXPECT_EQ(calls.load(), 3);
  EXPECT_EQ(lockstep_set(monitors[0], LOCKSTEP_SET_INTERVAL, 0), LOCKSTEP_INVALID_ARGUMENT);
  EXPECT_EQ(lockstep_set(monitors[0], 99, 0), LOCKSTEP_INVALID_ARGUMENT);
  for (lockstep_monitor* monitor : monitors) {
    EXPECT_EQ(lockstep_close(monitor, 5000), LOCKSTEP_OK);
    lockstep_monitor_destroy(monitor);
  }
}

TEST(CApi, FailingAllGatherTurnsMonitoringOffWithOneLine) {
  std::atomic<int> lines{0};
  lockstep_monitor_options options;
  lockstep_monitor_options_init(&options);
  options.all_gather = [](const void*, size_t, void*, void*) { return 5; };
  options.log = [](const char*, void* user) { ++*static_cast<std::atomic<int>*>(user); };
  options.log_user = &lines;
  lockstep_monitor* monitor = nullptr;
  ASSERT_EQ(lockstep_monitor_create(&options, &monitor), LOCKSTEP_OK) << last_error();
  for (uint64_t step = 0; step < 5; ++step) {
    lockstep_begin_step(monitor, step);
    lockstep_end_step(monitor);
  }
  EXPECT_EQ(lockstep_flush(monitor, 10000), LOCKSTEP_OK);
  lockstep_health health = {};
  health.size = sizeof(health);
  ASSERT_EQ(lockstep_get_health(monitor, &health), LOCKSTEP_OK);
  EXPECT_EQ(health.enabled, 0);
  EXPECT_NE(health.reason, LOCKSTEP_OK);
  EXPECT_EQ(lines.load(), 1);
  EXPECT_STRNE(lockstep_last_problem(monitor), "");
  lockstep_monitor_destroy(monitor);
}

TEST(CApi, AllGatherOfTheHostCarriesRecords) {
  lockstep_monitor_options options;
  lockstep_monitor_options_init(&options);
  options.all_gather = [](const void* send, size_t bytes, void* receive, void*) {
    std::memcpy(receive, send, bytes);
    return 0;
  };
  lockstep_monitor* monitor = nullptr;
  ASSERT_EQ(lockstep_monitor_create(&options, &monitor), LOCKSTEP_OK) << last_error();
  const std::vector<float> gradient(1000, 0.5F);
  const lockstep_segment segment = segment_of(gradient);
  lockstep_begin_step(monitor, 4);
  lockstep_on_gradient(monitor, &segment);
  lockstep_end_step(monitor);
  ASSERT_EQ(lockstep_flush(monitor, 10000), LOCKSTEP_OK);
  lockstep_step_stats stats = {};
  stats.size = sizeof(stats);
  ASSERT_EQ(lockstep_latest(monitor, &stats), LOCKSTEP_OK);
  EXPECT_EQ(stats.step, 4U);
  EXPECT_NEAR(stats.norm_mean, std::sqrt(250.0), 1e-6);
  EXPECT_TRUE(std::isnan(stats.cosine_mean)) << "one worker has no pairwise cosine: no verdict";
  lockstep_monitor_destroy(monitor);
}

}  // namespace
