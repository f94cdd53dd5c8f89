// A million rank-steps: bytes on disk and the report's queries over all of them. LOCKSTEP_RANK_STEPS makes it shorter.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::store {
namespace {

constexpr std::uint32_t kWorld = 8;

StepStats full_stats(const Step& step) {
  StepStats stats = make_stats(step);
  for (const StepMetric& metric : kStepMetrics) {
    if (!(stats.*metric.member)) stats.*metric.member = 1.0 / (3.0 + static_cast<double>(step.step));
  }
  for (RankStats& rank : stats.ranks) rank.reduction_gap = 1e-7;
  return stats;
}

TEST(RunStore, AMillionRankStepsTakeUnderTwoHundredBytesEach) {
  const char* asked = std::getenv("LOCKSTEP_RANK_STEPS");
  const std::uint64_t rank_steps = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1'000'000;
  const TempFolder temp;
  RunInfo info;
  info.world = kWorld;
  RunWriterOptions options;
  options.wait_when_full = true;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(temp.path(), info, options);
  ASSERT_TRUE(writer.has_value());
  for (std::uint64_t s = 0; s < rank_steps / kWorld; ++s) {
    Step step = make_step(s, kWorld);
    for (Record& record : step.records) {
      if (s % 50 == 0) record.state = {StateHash{true, s}, {true, s}, {true, s}, {true, s + record.rank}, {true, 1}};
    }
    (*writer)->on_step(step, full_stats(step));
    if (s % 10 == 0) (*writer)->put_expectations(s, {{"cosine_mean", 0.3, 0.2, 0.4}});
  }
  ASSERT_TRUE((*writer)->close(std::chrono::seconds(120)).is_ok());
  EXPECT_EQ((*writer)->health().steps_dropped, 0U) << "wait_when_full loses nothing";

  Result<RunReader> reader = RunReader::open(temp.path());
  ASSERT_TRUE(reader.has_value());
  const double bytes = static_cast<double>(reader->summary()->bytes) / static_cast<double>(rank_steps);
  EXPECT_LT(bytes, 200);
  RecordProperty("bytes_per_rank_step", std::to_string(bytes));

  std::vector<std::uint32_t> ranks(kWorld);
  std::iota(ranks.begin(), ranks.end(), 0U);
  const auto timed = [](const char* name, const auto& query) {
    const std::clock_t begin = std::clock();
    query();
    const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("%-12s %8.1f ms of processor time\n", name, ms);  // reported, not asserted
  };
  std::printf("bytes per rank-step: %.1f\n", bytes);
  timed("summary", [&] { EXPECT_EQ(reader->summary()->steps, rank_steps / kWorld); });
  timed("step_series", [&] { EXPECT_LE(reader->step_series({}, 1000)->buckets.size(), 1000U); });
  timed("rank_grid", [&] { EXPECT_LE(reader->rank_grid({}, 400, ranks)->buckets.size(), 400U); });
  timed("totals", [&] { EXPECT_EQ(reader->totals()->ranks.size(), kWorld); });
  timed("matrices", [&] { EXPECT_LE(reader->matrices()->size(), 201U); });
}

}  // namespace
}  // namespace lockstep::store
