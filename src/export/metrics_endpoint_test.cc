#include "export/metrics_endpoint.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::exports {
namespace {

std::shared_ptr<MetricsEndpoint> start(std::uint32_t max_ranks = 64) {
  MetricsOptions options;
  options.run = "r1";
  options.max_ranks = max_ranks;
  Result<std::shared_ptr<MetricsEndpoint>> endpoint = MetricsEndpoint::start(options);
  EXPECT_TRUE(endpoint.has_value()) << (endpoint ? "" : endpoint.error().message());
  return endpoint ? *endpoint : nullptr;
}

std::string scrape(const MetricsEndpoint& endpoint) {
  httplib::Client client("127.0.0.1", endpoint.port());
  const httplib::Result answer = client.Get("/metrics");
  return answer && answer->status == 200 ? answer->body : "";
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(MetricsEndpoint, ShowsTheNewestStepItsRanksAndItsFindings) {
  const std::shared_ptr<MetricsEndpoint> endpoint = start();
  for (std::uint64_t s = 0; s < 3; ++s) {
    Step step = store::make_step(s, 3);
    if (s == 1) step.records.pop_back();
    endpoint->on_step(step, store::make_stats(step));
  }
  endpoint->on_finding({"a", "sync.missing", {1}, 1, 2, Certainty::kCertain, 1, {}, "{}", "m", "r"});
  endpoint->on_finding({"a", "sync.missing", {1}, 1, 3, Certainty::kCertain, 1, {}, "{}", "m", "r"});
  endpoint->on_finding({"b", "sync.missing", {2}, 1, 2, Certainty::kCertain, 1, {}, "{}", "m", "r"});
  const std::string text = scrape(*endpoint);
  EXPECT_TRUE(has_line(text, R"(lockstep_step{run="r1"} 2)")) << text;
  EXPECT_TRUE(has_line(text, R"(lockstep_steps_total{run="r1"} 3)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_missing_records_total{run="r1"} 1)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_cosine_mean{run="r1"} 0.3)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_rank_norm{rank="2",run="r1"} 3)") ||
              has_line(text, R"(lockstep_rank_norm{run="r1",rank="2"} 3)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_rank_norm_max_rank{run="r1"} 2)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_token_loss{run="r1"} Nan)") ||
              has_line(text, R"(lockstep_token_loss{run="r1"} NaN)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_findings{run="r1",cause="sync.missing",certainty="certain"} 2)") ||
              has_line(text, R"(lockstep_findings{cause="sync.missing",certainty="certain",run="r1"} 2)"))
      << text;
}

TEST(MetricsEndpoint, RanksAreBoundedAndAggregatesAreNot) {
  const std::shared_ptr<MetricsEndpoint> endpoint = start(4);
  const Step step = store::make_step(0, 1000);
  endpoint->on_step(step, store::make_stats(step));
  const std::string text = scrape(*endpoint);
  EXPECT_NE(text.find("rank=\"3\""), std::string::npos);
  EXPECT_EQ(text.find("rank=\"4\""), std::string::npos);
  EXPECT_TRUE(has_line(text, R"(lockstep_rank_norm_max{run="r1"} 1000)")) << text;
  EXPECT_TRUE(has_line(text, R"(lockstep_rank_norm_max_rank{run="r1"} 999)"));
}

TEST(MetricsEndpoint, FollowsAStoredRunWithoutCountingTwice) {
  const store::TempFolder temp;
  store::RunInfo info;
  info.world = 2;
  const std::shared_ptr<store::RunWriter> writer = *store::RunWriter::create(temp.path() / "run", info);
  const auto add = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t s = from; s < to; ++s) {
      const Step step = store::make_step(s, 2);
      writer->on_step(step, store::make_stats(step));
    }
    ASSERT_TRUE(writer->flush(std::chrono::seconds(30)).is_ok());
  };
  add(0, 4);
  store::RunReader reader = std::move(*store::RunReader::open(temp.path() / "run"));
  const std::shared_ptr<MetricsEndpoint> endpoint = start();
  ASSERT_TRUE(endpoint->follow(reader).is_ok());
  ASSERT_TRUE(endpoint->follow(reader).is_ok());
  EXPECT_TRUE(has_line(scrape(*endpoint), R"(lockstep_steps_total{run="r1"} 4)"));
  Health health;
  health.enabled = false;
  writer->put_health(0, health);
  add(4, 6);
  ASSERT_TRUE(endpoint->follow(reader).is_ok());
  const std::string text = scrape(*endpoint);
  EXPECT_TRUE(has_line(text, R"(lockstep_steps_total{run="r1"} 6)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_step{run="r1"} 5)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_monitor_enabled{run="r1"} 0)"));
  EXPECT_TRUE(has_line(text, R"(lockstep_step_seconds{run="r1"} 0.2)"));
}

TEST(MetricsEndpoint, ATakenPortIsNamed) {
  const std::shared_ptr<MetricsEndpoint> endpoint = start();
  MetricsOptions options;
  options.port = endpoint->port();
  const Result<std::shared_ptr<MetricsEndpoint>> second = MetricsEndpoint::start(options);
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message().find(std::to_string(options.port)), std::string::npos);
}

}  // namespace
}  // namespace lockstep::exports
