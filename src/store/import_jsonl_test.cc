#include "store/import_jsonl.h"

#include <gtest/gtest.h>

#include <fstream>

#include "store/failing_vfs.h"
#include "store/import_line.h"
#include "store/run_reader.h"
#include "store/test_run.h"

namespace lockstep::store {
namespace {

class Import : public testing::Test {
 protected:
  void file(const std::string& name, const std::string& text) {
    files_.push_back(temp_.path() / name);
    std::ofstream(files_.back(), std::ios::binary) << text;
  }
  ImportedLog read() {
    Result<ImportedLog> log = read_jsonl(files_);
    EXPECT_TRUE(log.has_value()) << (log ? "" : log.error().message());
    return log ? *log : ImportedLog();
  }
  Result<ImportSummary> import(const std::string& run, RunWriterOptions options = {}) {
    return import_jsonl(
        files_, temp_.path() / run, {}, [](const Step& step) { return make_stats(step); }, {}, options);
  }
  TempFolder temp_;
  std::vector<std::filesystem::path> files_;
};

std::string line(std::uint64_t step, int rank, const std::string& loss, const std::string& norm) {
  return R"({"step": )" + std::to_string(step) + R"(, "rank": )" + std::to_string(rank) + R"(, "loss_local": )" + loss +
         R"(, "grad_norm_pre_ar": )" + norm + "}\n";
}

// The paper's own log: accumulation 4, the norm on the micro-step that synchronises.
TEST_F(Import, MicroStepsFoldIntoOptimizerSteps) {
  for (int rank = 0; rank < 2; ++rank) {
    std::string text;
    for (int micro = 0; micro < 12; ++micro) {
      text += line(static_cast<std::uint64_t>(micro), rank, std::to_string(1 + micro % 4 + rank),
                   micro % 4 == 3 ? std::to_string(30 + micro) : "null");
    }
    file("rank" + std::to_string(rank) + ".jsonl", text);
  }
  const ImportedLog log = read();
  EXPECT_TRUE(log.summary.micro_steps_numbered);
  EXPECT_EQ(log.summary.accepted, 24U);
  EXPECT_EQ(log.summary.world, 2U);
  ASSERT_EQ(log.steps.size(), 3U);
  EXPECT_EQ(log.steps[2].step, 2U);
  const Record& record = log.steps[1].records[1];
  EXPECT_EQ(record.rank, 1U);
  EXPECT_EQ(record.loss_count, 4U);
  EXPECT_DOUBLE_EQ(record.loss_sum / record.loss_count, 3.5) << "mean of 2, 3, 4, 5";
  EXPECT_TRUE(record.gradient.observed);
  EXPECT_DOUBLE_EQ(std::sqrt(record.gradient.sum_squares), 37);
  EXPECT_FALSE(record.reduced.observed);
}

TEST_F(Import, AStepNumberSharedByItsMicroStepsIsKept) {
  file("a.jsonl", line(5, 0, "1", "null") + line(5, 0, "3", "9") + line(6, 0, "2", "null") + line(6, 0, "2", "8"));
  const ImportedLog log = read();
  EXPECT_FALSE(log.summary.micro_steps_numbered);
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[0].step, 5U);
  EXPECT_DOUBLE_EQ(log.steps[0].records[0].loss_sum, 4);
  EXPECT_EQ(log.steps[1].step, 6U);
}

TEST_F(Import, NumbersCountedFromOneOrFromTheMiddleKeepTheirPlace) {
  std::string text;
  for (std::uint64_t micro = 4001; micro <= 4012; ++micro) text += line(micro, 0, "1", micro % 4 == 0 ? "2" : "null");
  file("a.jsonl", text);
  const ImportedLog log = read();
  ASSERT_EQ(log.steps.size(), 3U);
  EXPECT_EQ(log.steps[0].step, 1001U);
  EXPECT_EQ(log.steps[2].step, 1003U);
}

TEST_F(Import, ALostLineOfOneRankMovesNothing) {
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    for (std::uint64_t micro = 0; micro < 8; ++micro) {
      const bool lost = rank == 1 && micro == 3;
      text += lost ? "{\"step\": 3, \"rank\": 1, \"loss_lo\n" : line(micro, rank, "1", micro % 4 == 3 ? "2" : "null");
    }
  }
  file("mixed.jsonl", text);
  const ImportedLog log = read();
  EXPECT_EQ(log.summary.bad, 1U);
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[0].records[1].loss_count, 3U);
  EXPECT_FALSE(log.steps[0].records[1].gradient.observed);
  EXPECT_EQ(log.steps[1].records[1].loss_count, 4U);
}

TEST_F(Import, BadLinesAreNamedByFileAndLineAndTheRestIsKept) {
  file("rank0.jsonl", line(0, 0, "1.5", "2") + "\n  \r\nnot json\n" + "[1,2]\n" + line(1, 0, "\"high\"", "2") +
                          R"({"rank": 0, "loss_local": 1})" + "\n" + line(2, 0, "1", "-4") + line(3, -1, "1", "2") +
                          R"({"step": 4, "rank": 0})" + "\n" + line(5, 0, "1.25", "3"));
  const ImportedLog log = read();
  EXPECT_EQ(log.summary.lines, 9U);
  EXPECT_EQ(log.summary.accepted, 2U);
  EXPECT_EQ(log.summary.bad, 7U);
  ASSERT_EQ(log.summary.bad_lines.size(), 7U);
  EXPECT_EQ(log.summary.bad_lines[0].file, files_[0].string());
  EXPECT_EQ(log.summary.bad_lines[0].line, 4U) << "blank lines count as lines";
  EXPECT_EQ(log.summary.bad_lines[0].reason, "is no JSON");
  EXPECT_EQ(log.summary.bad_lines[3].reason, "\"step\" is missing");
  EXPECT_EQ(log.steps.size(), 2U);
}

TEST_F(Import, NonFiniteValuesAsPythonWritesThemAreData) {
  file("a.jsonl", line(0, 0, "NaN", "Infinity") + line(0, 1, "1", "2"));
  const ImportedLog log = read();
  ASSERT_EQ(log.steps.size(), 1U);
  EXPECT_EQ(log.steps[0].records[0].loss_nonfinite, 1U);
  EXPECT_EQ(log.steps[0].records[0].loss_count, 0U);
  EXPECT_EQ(log.steps[0].records[0].gradient.nonfinite, 1U);
  EXPECT_TRUE(log.steps[0].records[0].gradient.observed);
}

TEST_F(Import, TheSupersetBringsTokensBatchesAndTheReducedNorm) {
  file("a.jsonl",
       R"({"step":0,"rank":0,"loss_local":2,"tokens":10,"batch_ids":[7,"x"],"grad_norm_pre_ar":null})"
       "\n"
       R"({"step":0,"rank":0,"loss_local":4,"tokens":30,"batch_ids":["7"],"grad_norm_pre_ar":3,"grad_norm_post_ar":2})"
       "\n");
  const Record record = read().steps.at(0).records.at(0);
  EXPECT_EQ(record.tokens, 40U);
  EXPECT_DOUBLE_EQ(record.token_loss_sum, 140);
  EXPECT_EQ(record.fingerprint_count, 3U);
  EXPECT_EQ(record.fingerprints[0], record.fingerprints[2]) << "an id is a name, written either way";
  EXPECT_NE(record.fingerprints[0], record.fingerprints[1]);
  EXPECT_DOUBLE_EQ(record.reduced.sum_squares, 4);
}

TEST_F(Import, AbsentRanksAreMissingAndTheTailIsUnfinished) {
  file("a.jsonl", line(0, 0, "1", "1") + line(1, 0, "1", "1") + line(1, 2, "1", "1") + line(2, 0, "1", "null"));
  const ImportedLog log = read();
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[0].missing, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(log.steps[1].missing, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(log.summary.missing_records, 3U);
  EXPECT_EQ(log.summary.unfinished, 1U);
}

TEST_F(Import, LossesAloneMakeSteps) {
  file("a.jsonl", line(10, 0, "1", "null") + line(20, 0, "2", "null"));
  const ImportedLog log = read();
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[1].step, 20U);
}

TEST_F(Import, AFileThatCannotBeReadFailsBeforeAnythingIsMade) {
  file("good.jsonl", line(0, 0, "1", "1"));
  files_.push_back(temp_.path() / "absent.jsonl");
  const Result<ImportSummary> summary = import("run");
  ASSERT_FALSE(summary.has_value());
  EXPECT_NE(summary.error().message().find("absent.jsonl"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(temp_.path() / "run"));
  files_.back() = temp_.path();
  EXPECT_FALSE(import("run").has_value());
  files_.pop_back();
  file("packed.jsonl", "\x1f\x8b rest");
  EXPECT_NE(import("run").error().message().find("gunzip"), std::string::npos);
}

TEST_F(Import, NoGoodLineIsAnErrorThatNamesTheFirst) {
  file("a.jsonl", "hello\n");
  EXPECT_NE(import("run").error().message().find("a.jsonl:1: is no JSON"), std::string::npos);
}

TEST_F(Import, MakesARunWithItsSummary) {
  file("a.jsonl", line(0, 0, "1", "1") + line(0, 1, "2", "3") + "oops\n" + line(1, 0, "1", "1") + line(1, 1, "2", "3"));
  const Result<ImportSummary> summary = import("run");
  ASSERT_TRUE(summary.has_value()) << summary.error().message();
  EXPECT_EQ(summary->bad, 1U);
  Result<RunReader> reader = RunReader::open(temp_.path() / "run");
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary()->steps, 2U);
  EXPECT_EQ(reader->summary()->info.world, 2U);
  EXPECT_FALSE(reader->summary()->updated_ms.has_value()) << "a log's steps carry no time";
  EXPECT_NE((*reader->document("import"))->find("\"bad\":1"), std::string::npos);
}

TEST_F(Import, AFullDiskLeavesNoHalfRun) {
  std::string text;
  for (std::uint64_t s = 0; s < 2000; ++s) text += line(s, 0, "1", "1");
  file("a.jsonl", text);
  for (const std::int64_t room : {10'000, 60'000, 150'000}) {
    FailingVfs disk;
    disk.fill_after(room);
    RunWriterOptions options;
    options.vfs = disk.name();
    options.log = [](const std::string&) {};
    options.retry_interval = std::chrono::milliseconds(1);
    const Result<ImportSummary> summary = import("run", options);
    ASSERT_FALSE(summary.has_value());
    EXPECT_EQ(summary.error().code(), StatusCode::kIo);
    EXPECT_FALSE(std::filesystem::exists(temp_.path() / "run" / "run.sqlite")) << room;
  }
}

TEST(ImportLine, RandomBytesAreRefusedNotTrusted) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string good = line(12, 3, "1.5", "NaN");
  EXPECT_TRUE(parse_import_line(good).has_value());
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips) bad[random() % bad.size()] = static_cast<char>(random());
    (void)parse_import_line(bad);  // the sanitizers watch
  }
}

}  // namespace
}  // namespace lockstep::store
