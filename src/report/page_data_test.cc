#include "report/page_data.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::report {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using store::RunWriter;
using store::TempFolder;

class PageData : public testing::Test {
 protected:
  void start(std::uint32_t world, std::string environment = R"({"host":"node-7","cores":2,"deep":{"a":1}})") {
    store::RunInfo info;
    info.name = "first";
    info.world = world;
    info.environment = std::move(environment);
    info.created_ms = 1769850902000;
    info.layout.k = 4096;
    writer_ = *RunWriter::create(temp_.path() / "run", info);
  }
  void steps(std::uint64_t count, std::uint32_t world) {
    for (std::uint64_t s = 0; s < count; ++s) {
      const Step step = store::make_step(s, world);
      writer_->on_step(step, store::make_stats(step));
    }
  }
  json document(const PageOptions& options = {}) {
    const Status flushed = writer_->flush(seconds(30));
    EXPECT_TRUE(flushed.is_ok()) << flushed.message();
    Result<store::RunReader> reader = store::RunReader::open(temp_.path() / "run");
    EXPECT_TRUE(reader.has_value());
    Result<std::string> text = page_document(*reader, options);
    EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().message());
    text_ = text ? *text : "";
    return json::parse(text_);
  }
  TempFolder temp_;
  std::shared_ptr<RunWriter> writer_;
  std::string text_;
};

TEST_F(PageData, TellsTheRunInTheWordsOfTheContract) {
  start(4);
  writer_->put_config(0, R"({"lr":5e-05,"seed":42})");
  steps(20, 4);
  const json page = document();
  EXPECT_EQ(page["version"], 1);
  EXPECT_EQ(page["run"]["name"], "first");
  EXPECT_EQ(page["run"]["created"], "2026-01-31T09:15:02Z");
  EXPECT_EQ(page["run"]["steps"], 20);
  EXPECT_EQ(page["run"]["last_step"], 19);
  EXPECT_EQ(page["run"]["finished"], false);
  EXPECT_EQ(page["run"]["environment"]["cores"], 2);
  EXPECT_EQ(page["run"]["environment"]["deep"], R"({"a":1})") << "deeper values become text";
  EXPECT_EQ(page["run"]["config"]["seed"], 42);
  EXPECT_EQ(page["findings"], json::array());
  EXPECT_EQ(page["health"]["enabled"], true);
  EXPECT_EQ(page["channels"], (json{"loss", "gradient", "reduced", "batches"}));
  EXPECT_EQ(page["audit"]["reason"], "no batch fingerprints were given: call on_batch()");
  ASSERT_TRUE(writer_->close(seconds(30)).is_ok());
}

TEST_F(PageData, SeriesHaveExtremesOnlyWhenStepsWereJoined) {
  start(2);
  steps(50, 2);
  json page = document();
  EXPECT_EQ(page["series"]["step"].size(), 50U);
  EXPECT_FALSE(page["series"].contains("step_last"));
  EXPECT_FALSE(page["series"]["columns"]["loss_mean"].contains("min"));
  EXPECT_FALSE(page["series"]["columns"].contains("token_loss")) << "a column without values is absent";
  for (std::uint64_t s = 50; s < 1000; ++s) {
    const Step step = store::make_step(s, 2);
    writer_->on_step(step, store::make_stats(step));
  }
  page = document({.points = 100, .range = {}, .name = "other"});
  EXPECT_EQ(page["run"]["name"], "other");
  const json& series = page["series"];
  EXPECT_EQ(series["steps_total"], 1000);
  EXPECT_EQ(series["step"].size(), 100U);
  EXPECT_EQ(series["step_last"][0], 9);
  EXPECT_EQ(series["columns"]["loss_mean"]["min"].size(), 100U);
  EXPECT_LE(series["columns"]["loss_mean"]["min"][0], series["columns"]["loss_mean"]["value"][0]);
  EXPECT_EQ(page["ranks"]["loss"]["value"].size(), 2U);
  EXPECT_EQ(page["ranks"]["loss"]["value"][0].size(), 100U);
}

TEST_F(PageData, NumbersAreShortAndWhatJsonCannotHoldIsNull) {
  start(2);
  Step step = store::make_step(0, 2);
  StepStats stats = store::make_stats(step);
  stats.loss_mean = 1.0 / 3;
  stats.norm_mean = std::numeric_limits<double>::infinity();
  stats.cosine_mean = 0.123456789;
  stats.noise_ratio = 1e300;
  writer_->on_step(step, stats);
  const json page = document();
  EXPECT_EQ(page["series"]["columns"]["loss_mean"]["value"][0], 0.333333);
  EXPECT_TRUE(page["series"]["columns"]["norm_mean"]["value"][0].is_null());
  EXPECT_EQ(page["series"]["columns"]["cosine_mean"]["value"][0], 0.1235);
  EXPECT_NE(text_.find("0.333333]"), std::string::npos) << "six digits in the text, not seventeen";
}

TEST_F(PageData, FindingsHealthAuditAndExpectationsAreCarried) {
  start(4);
  steps(30, 4);
  writer_->put_finding({"f",
                        "data.identical_batches",
                        {0, 3},
                        12,
                        29,
                        Certainty::kCertain,
                        1.0,
                        {"w"},
                        R"({"steps":18,"nested":{"x":[1]},"list":[1,null]})",
                        "Rank 3 \xff reads </script>.",
                        "Shard."});
  Health health;
  health.bytes_sent = 1000;
  health.steps_sent = 10;
  writer_->put_health(0, health);
  health.enabled = false;
  health.reason = Status(StatusCode::kIo, "no memory");
  writer_->put_health(2, health);
  writer_->put_document(store::kAuditDocument, R"({"samples_seen":7})");
  writer_->put_document(store::kExpectedDocument, R"({"cosine_mean":{"level":0.99,"text":"why"}})");
  writer_->put_expectations(3, {{"cosine_mean", 0.3, 0.2, 0.4}});
  const json page = document();
  const json& finding = page["findings"][0];
  EXPECT_EQ(finding["ranks"], (json{0, 3}));
  EXPECT_EQ(finding["certainty"], "certain");
  EXPECT_EQ(finding["confidence"], 1);
  EXPECT_EQ(finding["evidence"]["steps"], 18);
  EXPECT_TRUE(finding["evidence"]["nested"].is_string());
  EXPECT_EQ(finding["message"], "Rank 3 \xef\xbf\xbd reads </script>.") << "foreign bytes become U+FFFD";
  EXPECT_EQ(page["health"]["enabled"], false);
  EXPECT_EQ(page["health"]["reason"], "rank 2: no memory");
  EXPECT_EQ(page["health"]["bytes_sent"], 2000);
  EXPECT_EQ(page["costs"]["bytes_per_record"], 100);
  EXPECT_NEAR(page["costs"]["overhead"].get<double>(), 0.0016026, 1e-6);
  EXPECT_EQ(page["costs"]["rank"].size(), 4U);
  EXPECT_EQ(page["audit"]["samples_seen"], 7);
  EXPECT_EQ(page["series"]["expected"]["cosine_mean"]["level"], 0.99);
  EXPECT_EQ(page["series"]["expected"]["cosine_mean"]["low"][3], 0.2);
  EXPECT_TRUE(page["series"]["expected"]["cosine_mean"]["low"][4].is_null());
}

TEST_F(PageData, MatricesStayWithinTheirBudgetAndKeepTheImportantOnes) {
  start(64);
  steps(190, 64);
  writer_->put_finding({"f", "rank.outlier", {1}, 97, 99, Certainty::kStatistical, 0.9, {}, "{}", "m", "r"});
  const json page = document();
  std::size_t values = 0;
  std::vector<std::uint64_t> shown;
  for (const json& matrix : page["cosine"]["matrices"]) {
    values += matrix["values"].size();
    shown.push_back(matrix["step"]);
  }
  EXPECT_LE(values, 100'000U);
  EXPECT_GE(shown.size(), 10U);
  EXPECT_EQ(shown.front(), 0U);
  EXPECT_EQ(shown.back(), 189U);
  EXPECT_TRUE(std::count(shown.begin(), shown.end(), 97U) == 1);
  EXPECT_EQ(page["cosine"]["error"], 0.0156);
}

TEST_F(PageData, LargeWorldsShowTheRanksOfFindingsAndAnEvenChoice) {
  start(1000);
  steps(3, 1000);
  writer_->put_finding({"f", "rank.outlier", {777}, 1, 2, Certainty::kStatistical, 0.9, {}, "{}", "m", "r"});
  const json page = document();
  const json& ranks = page["ranks"]["rank"];
  EXPECT_LE(ranks.size(), 256U);
  EXPECT_GE(ranks.size(), 250U);
  EXPECT_EQ(std::count(ranks.begin(), ranks.end(), json(777)), 1);
  EXPECT_NE(page["ranks"]["omitted"].get<std::string>().find("1000"), std::string::npos);
}

TEST_F(PageData, ARunWithoutStepsHasNoVerdictAndAStudyStandsAlone) {
  start(4);
  json page = document();
  EXPECT_EQ(page["run"]["steps"], 0);
  EXPECT_TRUE(page["run"]["first_step"].is_null());
  EXPECT_TRUE(page["no_verdict"].is_string());
  EXPECT_FALSE(page.contains("series"));
  writer_->put_document(store::kStudyDocument, R"({"name":"s1"})");
  page = document();
  EXPECT_EQ(page["study"]["name"], "s1");
  EXPECT_FALSE(page.contains("run"));
}

TEST_F(PageData, ALongRunMakesADocumentUnderTwoMegabytes) {
  start(8);
  for (std::uint64_t s = 0; s < 6000; ++s) {
    const Step step = store::make_step(s, 8);
    StepStats stats = store::make_stats(step);
    for (const store::StepMetric& metric : store::kStepMetrics) {
      if (!(stats.*metric.member)) stats.*metric.member = 1.0 / (3.0 + static_cast<double>(s));
    }
    writer_->on_step(step, stats);
  }
  (void)document();
  EXPECT_LT(text_.size(), 1'200'000U) << "with the page of 0.7 MB the report stays under 2 MB";
  std::printf("document: %zu bytes\n", text_.size());
}

}  // namespace
}  // namespace lockstep::report
