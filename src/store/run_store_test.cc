// What is written is read back: the writer and the reader together, on real files.
#include <gtest/gtest.h>

#include <array>

#include "store/batch.h"
#include "store/run_reader.h"
#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::store {
namespace {

using std::chrono::seconds;

std::shared_ptr<RunWriter> make_writer(const std::filesystem::path& folder, std::uint32_t world,
                                       RunWriterOptions options = {}) {
  RunInfo info;
  info.world = world;
  info.command = "lockstep train";
  info.environment = R"({"host":"node-7"})";
  info.layout.seed = 0xffffffffffffffffULL;
  Result<std::shared_ptr<RunWriter>> writer = RunWriter::create(folder, info, options);
  EXPECT_TRUE(writer.has_value()) << (writer ? "" : writer.error().message());
  return writer ? *writer : nullptr;
}

void write_steps(RunWriter& writer, std::uint64_t from, std::uint64_t to, std::uint32_t world) {
  for (std::uint64_t s = from; s < to; ++s) {
    const Step step = make_step(s, world);
    writer.on_step(step, make_stats(step));
  }
}

RunReader open_reader(const std::filesystem::path& folder) {
  Result<RunReader> reader = RunReader::open(folder);
  EXPECT_TRUE(reader.has_value()) << (reader ? "" : reader.error().message());
  return std::move(*reader);
}

TEST(RunStore, KeepsTheRunItsStepsAndItsRanks) {
  const TempFolder temp;
  const auto folder = temp.path() / "run one?#%";
  const std::shared_ptr<RunWriter> writer = make_writer(folder, 4);
  write_steps(*writer, 10, 60, 4);
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  EXPECT_EQ(writer->health().steps_written, 50U);

  RunReader reader = open_reader(folder);
  const RunSummary summary = *reader.summary();
  EXPECT_EQ(summary.info.name, "run one?#%");
  EXPECT_EQ(summary.info.id.size(), 32U);
  EXPECT_EQ(summary.info.world, 4U);
  EXPECT_EQ(summary.info.layout.seed, 0xffffffffffffffffULL);
  EXPECT_EQ(summary.steps, 50U);
  EXPECT_EQ(summary.first_step, 10U);
  EXPECT_EQ(summary.last_step, 59U);
  EXPECT_TRUE(summary.ended_ms.has_value());
  EXPECT_FALSE(summary.live);

  std::uint64_t expected = 20;
  const Status read = reader.for_each_step({20, 29}, RunReader::Ranks::kAll, [&](const StoredStep& stored) {
    const Step step = make_step(expected, 4);
    const StepStats stats = make_stats(step);
    EXPECT_EQ(stored.stats.step, expected);
    for (const StepMetric& metric : kStepMetrics) {
      EXPECT_EQ(stored.stats.*metric.member, stats.*metric.member) << metric.name;
    }
    EXPECT_EQ(stored.tokens, 406U);
    EXPECT_EQ(stored.band.high, stats.ranks[3].loss);
    EXPECT_EQ(stored.ranks.size(), 4U);
    EXPECT_EQ(stored.ranks[2].loss, stats.ranks[2].loss);
    EXPECT_EQ(stored.ranks[2].gradient_hash, step.records[2].gradient.hash);
    EXPECT_NEAR(*stored.step_ns, 2e8, 1e3);
    ++expected;
    return true;
  });
  ASSERT_TRUE(read.is_ok()) << read.message();
  EXPECT_EQ(expected, 30U);
}

TEST(RunStore, AReaderSeesALiveRunGrow) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 2);
  write_steps(*writer, 0, 5, 2);
  ASSERT_TRUE(writer->flush(seconds(20)).is_ok());
  RunReader reader = open_reader(temp.path());
  EXPECT_EQ(reader.summary()->steps, 5U);
  EXPECT_TRUE(reader.summary()->live);
  const std::int64_t before = *reader.change_counter();

  write_steps(*writer, 5, 9, 2);
  ASSERT_TRUE(writer->flush(seconds(20)).is_ok());
  EXPECT_NE(*reader.change_counter(), before);
  EXPECT_EQ(reader.summary()->steps, 9U);

  {
    const RunReader::Snapshot snapshot(reader);
    ASSERT_TRUE(snapshot.status().is_ok());
    EXPECT_EQ(reader.summary()->steps, 9U);
    write_steps(*writer, 9, 12, 2);
    ASSERT_TRUE(writer->flush(seconds(20)).is_ok());
    EXPECT_EQ(reader.summary()->steps, 9U) << "a snapshot does not move";
  }
  EXPECT_EQ(reader.summary()->steps, 12U);
}

TEST(RunStore, AReopenedRunGoesOnAndARepeatedStepReplacesTheOlder) {
  const TempFolder temp;
  const auto folder = temp.path() / "r";
  write_steps(*make_writer(folder, 2), 0, 10, 2);
  Result<std::shared_ptr<RunWriter>> again = RunWriter::open(folder);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  Step step = make_step(8, 2);
  StepStats stats = make_stats(step);
  stats.loss_mean = 77;
  (*again)->on_step(step, stats);
  write_steps(**again, 10, 12, 2);
  ASSERT_TRUE((*again)->close(seconds(20)).is_ok());
  RunReader reader = open_reader(folder);
  EXPECT_EQ(reader.summary()->steps, 12U);
  (void)reader.for_each_step({8, 8}, RunReader::Ranks::kNone, [](const StoredStep& stored) {
    EXPECT_EQ(stored.stats.loss_mean, 77);
    return true;
  });
}

TEST(RunStore, FindingsAreReplacedByIdAndComeBackWhole) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 2);
  Finding finding{"f1",
                  "sync.missing",
                  {0, 3},
                  12,
                  20,
                  Certainty::kCertain,
                  1.0,
                  {"layer.0.weight", "a\"b"},
                  R"({"mismatches":8})",
                  "Rank 3 …",
                  "Call all_reduce."};
  writer->put_finding(finding);
  finding.last_step = 400;
  writer->put_finding(finding);
  writer->put_finding({"f0", "rank.outlier", {1}, 3, 4, Certainty::kStatistical, 0.99, {}, "{}", "m", "r"});
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  const std::vector<Finding> read = *open_reader(temp.path()).findings();
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].id, "f1") << "certain ones first";
  EXPECT_EQ(read[0].ranks, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(read[0].last_step, 400U);
  EXPECT_EQ(read[0].parameters, finding.parameters);
  EXPECT_EQ(read[0].evidence, finding.evidence);
  EXPECT_EQ(read[0].message, finding.message);
  EXPECT_EQ(read[1].certainty, Certainty::kStatistical);
  EXPECT_DOUBLE_EQ(read[1].confidence, 0.99);
}

TEST(RunStore, HealthConfigsAndDocumentsAreKept) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 2);
  Health health;
  health.enabled = false;
  health.reason = Status(StatusCode::kIo, "disk full");
  health.drops_late = 3;
  health.bytes_sent = 1ULL << 40;
  writer->put_health(0, health);
  writer->put_config(1, R"({"lr":5e-5})");
  writer->put_document(kAuditDocument, R"({"samples_seen":5})");
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  RunReader reader = open_reader(temp.path());
  const Health read = reader.health()->at(0);
  EXPECT_FALSE(read.enabled);
  EXPECT_EQ(read.reason.message(), "disk full");
  EXPECT_EQ(read.drops_late, 3U);
  EXPECT_EQ(read.bytes_sent, 1ULL << 40);
  EXPECT_EQ(reader.configs()->at(1), R"({"lr":5e-5})");
  EXPECT_EQ(**reader.document(kAuditDocument), R"({"samples_seen":5})");
  EXPECT_FALSE(reader.document(kStudyDocument)->has_value());
}

TEST(RunStore, MatricesAreThinnedEvenlyAndTheNewestStays) {
  const TempFolder temp;
  RunWriterOptions options;
  options.max_matrices = 10;
  options.flush_interval = std::chrono::milliseconds(1);
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 3, options);
  for (std::uint64_t block = 0; block < 7; ++block) {
    write_steps(*writer, block * 13, block * 13 + 13, 3);
    ASSERT_TRUE(writer->flush(seconds(20)).is_ok());
  }
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  RunReader reader = open_reader(temp.path());
  const std::vector<MatrixEntry> entries = *reader.matrices();
  std::vector<std::uint64_t> steps;
  for (const MatrixEntry& entry : entries) steps.push_back(entry.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{0, 16, 32, 48, 64, 80, 90}));
  const CosineMatrix matrix = *reader.matrix(90);
  EXPECT_EQ(matrix.ranks.size(), 3U);
  EXPECT_EQ(matrix.cosines[4], 1.0F);
  EXPECT_FALSE(reader.matrix(17).has_value());
}

TEST(RunStore, DownsamplingKeepsASpikeOfOneStep) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 2);
  for (std::uint64_t s = 0; s < 1000; ++s) {
    Step step = make_step(s, 2);
    if (s == 637) step.records[1].loss_sum = 900;
    if (s == 638) step.records.pop_back();
    if (s == 639) step.records[0].gradient.nonfinite = 1;
    writer->on_step(step, make_stats(step));
  }
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  RunReader reader = open_reader(temp.path());
  const StepSeries series = *reader.step_series({}, 64);
  EXPECT_EQ(series.buckets.steps_total, 1000U);
  EXPECT_EQ(series.buckets.size(), 63U);
  EXPECT_EQ(series.buckets.first[1], 16U);
  EXPECT_EQ(series.buckets.last[1], 31U);
  EXPECT_EQ(series.buckets.last.back(), 999U);
  const auto loss_max = std::find_if(series.columns.begin(), series.columns.end(),
                                     [](const SeriesColumn& column) { return column.name == "loss_max"; });
  EXPECT_EQ(loss_max->high[637 / 16], 900.0F);
  EXPECT_LT(loss_max->high[637 / 16 + 1], 10.0F);

  const std::array<std::uint32_t, 2> ranks = {0, 1};
  const RankGrid grid = *reader.rank_grid({}, 10, ranks);
  ASSERT_EQ(grid.buckets.size(), 10U);
  EXPECT_EQ(grid.loss.high[1 * 10 + 6], 900.0F);
  EXPECT_LT(grid.loss.high[0 * 10 + 6], 10.0F);
  EXPECT_EQ(grid.missing[1 * 10 + 6], 1U);
  EXPECT_EQ(grid.nonfinite[0 * 10 + 6], 1U);
  EXPECT_EQ(grid.missing[0 * 10 + 6], 0U);

  const StepSeries part = *reader.step_series({630, 640}, 1000);
  EXPECT_TRUE(part.buckets.one_step_each());
  EXPECT_EQ(part.buckets.size(), 11U);
  EXPECT_EQ(reader.step_series({5000, 6000}, 10)->buckets.size(), 0U);
}

TEST(RunStore, ExpectationsFollowTheBucketsOfTheSeries) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 2);
  for (std::uint64_t s = 0; s < 100; ++s) {
    const Step step = make_step(s, 2);
    writer->on_step(step, make_stats(step));
    if (s >= 50) writer->put_expectations(s, {{"cosine_mean", 0.5, 0.25, std::nullopt}});
  }
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  RunReader reader = open_reader(temp.path());
  const std::vector<ExpectedColumn> expected = *reader.expected_series(reader.step_series({}, 10)->buckets);
  ASSERT_EQ(expected.size(), 1U);
  EXPECT_EQ(expected[0].metric, "cosine_mean");
  EXPECT_TRUE(std::isnan(expected[0].value[4]));
  EXPECT_EQ(expected[0].value[5], 0.5F);
  EXPECT_EQ(expected[0].low[9], 0.25F);
  EXPECT_TRUE(std::isnan(expected[0].high[9]));
}

TEST(RunStore, TotalsAreMeansPerRankAndWhatWasObserved) {
  const TempFolder temp;
  const std::shared_ptr<RunWriter> writer = make_writer(temp.path(), 3);
  write_steps(*writer, 0, 10, 3);
  ASSERT_TRUE(writer->close(seconds(20)).is_ok());
  const RunTotals timings = *open_reader(temp.path()).totals();
  EXPECT_NEAR(*timings.digest_ns, 300'000, 1);
  ASSERT_EQ(timings.ranks.size(), 3U);
  EXPECT_NEAR(*timings.ranks[2].other_ns, 20'000, 1);
  EXPECT_EQ(timings.observed, RankScalars::kGradient | RankScalars::kReduced);
  EXPECT_TRUE(timings.losses && timings.batches);
}

TEST(MatrixStride, KeepsBetweenHalfAndAllOfTheAllowed) {
  for (std::int64_t ordinal = 0; ordinal < 5000; ++ordinal) {
    const std::int64_t kept = ordinal / matrix_stride(ordinal, 200) + 1;
    EXPECT_LE(kept, 200);
    EXPECT_GE(kept, std::min<std::int64_t>(ordinal + 1, 100));
  }
}

}  // namespace
}  // namespace lockstep::store
