#include "train/embedded_data.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "train/embedded_tasks.h"
#include "train/examples.h"
#include "train/file_bytes.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

class EmbeddedDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "lockstep_embedded.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path folder_;
};

std::string contents(const fs::path& file) {
  return read_file(file).value_or("");
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(EmbeddedRows, AreTheSameBytesEverywhere) {
  std::string json = to_alpaca_json(make_embedded_rows(kEmbeddedRows, kEmbeddedSeed));
  EXPECT_EQ(XXH3_64bits(json.data(), json.size()), 0xb055ea79c71815d9ULL)
      << "the rows changed: raise kEmbeddedDataVersion and store the new value";
}

TEST(EmbeddedRows, FollowTheSeed) {
  EXPECT_EQ(make_embedded_rows(200, 1), make_embedded_rows(200, 1));
  EXPECT_NE(make_embedded_rows(200, 1), make_embedded_rows(200, 2));
  EXPECT_TRUE(make_embedded_rows(0, 1).empty());
}

TEST(EmbeddedRows, AreVariedWithFewDuplicates) {
  std::vector<Row> rows = make_embedded_rows(kEmbeddedRows, kEmbeddedSeed);
  ASSERT_EQ(rows.size(), kEmbeddedRows);
  std::set<std::string> distinct;
  std::map<std::string, int> openings;
  for (const Row& row : rows) {
    distinct.insert(row.instruction + '\n' + row.input + '\n' + row.output);
    ++openings[row.instruction.substr(0, row.instruction.find(' '))];
    EXPECT_FALSE(row.instruction.empty());
    EXPECT_FALSE(row.output.empty());
  }
  EXPECT_GT(distinct.size(), rows.size() * 99 / 100);
  EXPECT_GT(openings.size(), 15U);
  auto with_input = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.input.empty(); });
  EXPECT_GT(with_input, 1000);
  EXPECT_LT(with_input, 3000);
}

TEST(EmbeddedRows, AnswersAreRight) {
  int checked = 0;
  for (const Row& row : make_embedded_rows(2000, 3)) {
    long long a = 0, b = 0;
    if (std::sscanf(row.instruction.c_str(), "What is %lld + %lld?", &a, &b) == 2) {
      EXPECT_EQ(row.output, std::to_string(a + b));
      ++checked;
    }
    if (row.instruction == "Write the letters backwards.") {
      EXPECT_EQ(row.output, std::string(row.input.rbegin(), row.input.rend()));
      ++checked;
    }
    if (std::sscanf(row.instruction.c_str(), "Is %lld a leap year?", &a) == 1) {
      EXPECT_EQ(row.output.starts_with("Yes"), a % 4 == 0 && (a % 100 != 0 || a % 400 == 0)) << a;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
}

TEST_F(EmbeddedDataTest, IsMadeOnceAndThenCached) {
  Result<EmbeddedData> first = ensure_embedded_data(folder_ / "not" / "there" / "yet");
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_TRUE(first->made);
  Result<EmbeddedData> second = ensure_embedded_data(folder_ / "not" / "there" / "yet");
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->made);
  EXPECT_EQ(second->rows, first->rows);
  EXPECT_EQ(files_in(first->rows.parent_path()), 3U) << "no temporary file stays behind";
}

TEST_F(EmbeddedDataTest, SuitsASmallModel) {
  EmbeddedData files = *ensure_embedded_data(folder_);
  Result<std::vector<Row>> rows = read_alpaca(files.rows);
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(*rows, make_embedded_rows(kEmbeddedRows, kEmbeddedSeed));
  Result<Tokenizer> tokenizer = Tokenizer::load(files.tokenizer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(tokenizer->vocab_size(), kEmbeddedVocab);
  for (auto form : {PromptTemplate::kPaper, PromptTemplate::kStanford}) {
    Result<Dataset> data = encode_rows(*rows, *tokenizer, {form, 160});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ(data->report.truncated, 0);
    EXPECT_EQ(data->report.without_target, 0);
    std::vector<std::int64_t> lengths;
    for (const Example& example : data->examples) lengths.push_back(std::ssize(example.ids));
    std::sort(lengths.begin(), lengths.end());
    EXPECT_LE(lengths[lengths.size() / 2], 40);
    EXPECT_LE(lengths[lengths.size() * 9 / 10], 60) << "most rows are short";
    EXPECT_GE(lengths.back(), 100) << "and some are long";
  }
}

TEST_F(EmbeddedDataTest, EveryRowSurvivesEncodingAndDecoding) {
  EmbeddedData files = *ensure_embedded_data(folder_);
  Tokenizer tokenizer = std::move(Tokenizer::load(files.tokenizer)).value();
  std::vector<Row> rows = read_alpaca(files.rows).value();
  for (const Row& row : rows) {
    std::string text = render_prompt(row, PromptTemplate::kPaper) + row.output;
    ASSERT_EQ(*tokenizer.decode(*tokenizer.encode(text)), text);
  }
}

TEST_F(EmbeddedDataTest, ADamagedCacheIsMadeAnew) {
  EmbeddedData files = *ensure_embedded_data(folder_);
  std::string rows = contents(files.rows), model = contents(files.tokenizer);
  fs::resize_file(files.rows, rows.size() / 2);
  EXPECT_TRUE(ensure_embedded_data(folder_)->made);
  EXPECT_EQ(contents(files.rows), rows);
  std::ofstream(files.tokenizer) << "rubbish";
  EXPECT_TRUE(ensure_embedded_data(folder_)->made);
  EXPECT_EQ(contents(files.tokenizer), model);
  fs::remove(files.tokenizer);
  EXPECT_TRUE(ensure_embedded_data(folder_)->made);
  fs::remove(files.rows.parent_path() / "manifest.txt");
  EXPECT_TRUE(ensure_embedded_data(folder_)->made);
  EXPECT_FALSE(ensure_embedded_data(folder_)->made);
}

TEST_F(EmbeddedDataTest, ProcessesThatAskAtOnceAllGetWholeFiles) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Result<EmbeddedData> files = ensure_embedded_data(folder_);
      bool good = files && read_alpaca(files->rows).has_value() && Tokenizer::load(files->tokenizer).has_value();
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_FALSE(ensure_embedded_data(folder_)->made);
}

TEST_F(EmbeddedDataTest, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(folder_ / "file") << "in the way";
  Result<EmbeddedData> files = ensure_embedded_data(folder_ / "file" / "cache");
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code(), StatusCode::kIo);
  EXPECT_NE(files.error().message().find((folder_ / "file").string()), std::string::npos) << files.error().message();
}

TEST_F(EmbeddedDataTest, AFailedWriteIsAnErrorAndLeavesNoManifest) {
  // A folder where the tokenizer should go makes the rename fail after the rows were written.
  fs::create_directories(folder_ / ("embedded-v" + std::to_string(kEmbeddedDataVersion)) / "tokenizer.model" / "x");
  Result<EmbeddedData> files = ensure_embedded_data(folder_);
  ASSERT_FALSE(files);
  EXPECT_NE(files.error().message().find("tokenizer.model"), std::string::npos) << files.error().message();
  fs::path cache = folder_ / ("embedded-v" + std::to_string(kEmbeddedDataVersion));
  EXPECT_FALSE(fs::exists(cache / "manifest.txt"));
  EXPECT_EQ(files_in(cache), 2U) << "the rows and the obstacle, no temporary file";
}

}  // namespace
}  // namespace lockstep::train
