#include "export/table_export.h"

#include <gtest/gtest.h>

#include <clocale>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "store/import_jsonl.h"
#include "store/run_writer.h"
#include "store/test_run.h"

namespace lockstep::exports {
namespace {

using nlohmann::json;

class TableExport : public testing::Test {
 protected:
  TableExport() {
    store::RunInfo info;
    info.world = 3;
    const std::shared_ptr<store::RunWriter> writer = *store::RunWriter::create(temp_.path() / "run", info);
    for (std::uint64_t s = 0; s < 4; ++s) {
      const Step step = store::make_step(s, 3);
      writer->on_step(step, store::make_stats(step));
    }
    writer->put_finding({"f1",
                         "sync.missing",
                         {0, 2},
                         1,
                         3,
                         Certainty::kCertain,
                         0.5,
                         {"a"},
                         R"({"n":1})",
                         "He said \"no\", twice\nand left",
                         "Fix, it"});
    EXPECT_TRUE(writer->close(std::chrono::seconds(30)).is_ok());
  }
  store::RunReader reader() { return std::move(*store::RunReader::open(temp_.path() / "run")); }
  std::vector<std::string> lines(const std::string& name) {
    std::ifstream in(temp_.path() / "out" / name);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  store::TempFolder temp_;
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line + ",");
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

TEST_F(TableExport, CsvHasARowPerStepAndARowPerRankAndStep) {
  store::RunReader run = reader();
  const Status status = export_csv(run, temp_.path() / "out");
  ASSERT_TRUE(status.is_ok()) << status.message();
  const std::vector<std::string> steps = lines("steps.csv");
  ASSERT_EQ(steps.size(), 5U);
  const std::vector<std::string> names = split(steps[0]);
  const std::vector<std::string> values = split(steps[3]);
  ASSERT_EQ(names.size(), values.size());
  const auto value = [&](const std::string& name) {
    return values[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
  };
  const StepStats stats = store::make_stats(store::make_step(2, 3));
  EXPECT_EQ(value("step"), "2");
  EXPECT_EQ(std::stod(value("loss_mean")), *stats.loss_mean) << "all digits";
  EXPECT_EQ(value("token_loss"), "") << "no verdict is empty";
  const std::vector<std::string> ranks = lines("ranks.csv");
  ASSERT_EQ(ranks.size(), 1U + 4 * 3);
  EXPECT_EQ(split(ranks[0]).size(), split(ranks[5]).size());
  EXPECT_EQ(split(ranks[5])[1], "1");
}

TEST_F(TableExport, CsvQuotesTextAsTheRfcSays) {
  store::RunReader run = reader();
  ASSERT_TRUE(export_csv(run, temp_.path() / "out").is_ok());
  std::ostringstream text;
  text << std::ifstream(temp_.path() / "out" / "findings.csv").rdbuf();
  EXPECT_NE(text.str().find("f1,sync.missing,0 2,1,3,certain,0.5,a,\"{\"\"n\"\":1}\",\"He said \"\"no\"\", twice\nand "
                            "left\",\"Fix, it\"\n"),
            std::string::npos)
      << text.str();
}

TEST_F(TableExport, JsonLinesOfRanksCanBeImportedAgain) {
  store::RunReader run = reader();
  ASSERT_TRUE(export_jsonl(run, temp_.path() / "out").is_ok());
  const json finding = json::parse(lines("findings.jsonl").at(0));
  EXPECT_EQ(finding["evidence"]["n"], 1);
  EXPECT_EQ(json::parse(lines("steps.jsonl").at(1))["loss_mean"], *store::make_stats(store::make_step(1, 3)).loss_mean);
  const std::vector<std::filesystem::path> files = {temp_.path() / "out" / "ranks.jsonl"};
  const Result<store::ImportedLog> log = store::read_jsonl(files);
  ASSERT_TRUE(log.has_value()) << log.error().message();
  EXPECT_EQ(log->summary.bad, 0U);
  ASSERT_EQ(log->steps.size(), 4U);
  const Record& again = log->steps[3].records[2];
  const Record original = store::make_step(3, 3).records[2];
  EXPECT_DOUBLE_EQ(again.loss_sum, original.loss_sum);
  EXPECT_DOUBLE_EQ(again.gradient.sum_squares, original.gradient.sum_squares);
  EXPECT_EQ(again.tokens, original.tokens);
}

TEST_F(TableExport, AFolderThatCannotBeMadeIsNamed) {
  store::RunReader run = reader();
  std::ofstream(temp_.path() / "file") << "x";
  const Status status = export_csv(run, temp_.path() / "file" / "out");
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("file/out"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::exports
