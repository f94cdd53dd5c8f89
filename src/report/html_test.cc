#include "report/html.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/plain_page.h"
#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::report {
namespace {

using nlohmann::json;
using store::TempFolder;

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Html, NoTextOfTheRunCanLeaveItsElement) {
  const std::string hostile = "</script><script>alert(1)</script><!-- \xe2\x80\xa8\xe2\x80\xa9";
  const std::string safe = script_safe(json{{"message", hostile}}.dump());
  EXPECT_EQ(safe.find('<'), std::string::npos);
  EXPECT_EQ(safe.find("\xe2\x80"), std::string::npos);
  EXPECT_EQ(json::parse(safe)["message"], hostile) << "and it reads back the same";
}

TEST(Html, TheReportHoldsItsDataAndNothingFromTheNetwork) {
  const TempFolder temp;
  Result<std::shared_ptr<store::RunWriter>> writer = store::RunWriter::create(temp.path() / "r", {});
  ASSERT_TRUE(writer.has_value());
  (*writer)->put_finding(
      {"f", "sync.missing", {2}, 1, 2, Certainty::kCertain, 1, {}, "{}", "It said </script>", "Fix."});
  const Step step = store::make_step(0, 2);
  (*writer)->on_step(step, store::make_stats(step));
  ASSERT_TRUE((*writer)->close(std::chrono::seconds(30)).is_ok());
  Result<store::RunReader> reader = store::RunReader::open(temp.path() / "r");
  ASSERT_TRUE(reader.has_value());
  const Status written = write_report(*reader, temp.path() / "x.html");
  ASSERT_TRUE(written.is_ok()) << written.message();
  const std::string html = read(temp.path() / "x.html");
  EXPECT_EQ(html.find("It said </script>"), std::string::npos);
  EXPECT_EQ(html.find(" src=\"http"), std::string::npos);
  if (!has_page()) {
    EXPECT_NE(html.find("It said &lt;/script&gt;"), std::string::npos);
    return;
  }
  const std::string open = R"(<script id="lockstep-data" type="application/json">)";
  const std::size_t begin = html.find(open) + open.size();
  const json data = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data["findings"][0]["message"], "It said </script>");
}

TEST(Html, ThePlainPageShowsFindingsAndMetricsAsText) {
  const std::string html = plain_page(R"({"version":1,"run":{"name":"<b>","world":2,"steps":3,"created":"now"},
    "findings":[{"message":"Rank 1 <i>","cause":"sync.missing"}],
    "series":{"columns":{"loss_mean":{"value":[4.5,null]}}}})");
  EXPECT_NE(html.find("Rank 1 &lt;i&gt;"), std::string::npos);
  EXPECT_NE(html.find("4.5"), std::string::npos);
  EXPECT_NE(html.find("no verdict"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(plain_page("nonsense").find("no data"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::report
