#include "train/alpaca.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::train {
namespace {

const char* const kGood = R"([{"instruction": "a", "input": "b", "output": "c"},
 {"output": "f", "instruction": "d"}])";

// The message of the refusal; fails the test when the text was accepted.
std::string refusal(std::string_view text) {
  Result<std::vector<Row>> rows = parse_alpaca(text, "data.json");
  EXPECT_FALSE(rows) << text;
  return rows ? "" : rows.error().message();
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Alpaca, ReadsAnArrayOfRows) {
  Result<std::vector<Row>> rows = parse_alpaca(kGood, "x");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(*rows, (std::vector<Row>{{"a", "b", "c"}, {"d", "", "f"}}));
}

TEST(Alpaca, ReadsJsonLinesWithBlankLinesAndCrlf) {
  Result<std::vector<Row>> rows = parse_alpaca(
      "{\"instruction\":\"a\",\"output\":\"c\"}\r\n\r\n  {\"instruction\":\"d\",\"input\":null,\"output\":\"f\"}", "x");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(*rows, (std::vector<Row>{{"a", "", "c"}, {"d", "", "f"}}));
}

TEST(Alpaca, AcceptsByteOrderMarkCrlfAndUnicode) {
  std::string text =
      "\xEF\xBB\xBF[\r\n{\"instruction\":\"\\u00fc\\ud83d\\ude00\",\r\n\"output\":\"日本\\n\\u0000x\"}]\r\n";
  Result<std::vector<Row>> rows = parse_alpaca(text, "x");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].instruction, "ü😀");
  EXPECT_EQ((*rows)[0].output, std::string("日本\n\0x", 9));
}

TEST(Alpaca, EmptyStringsAreRowsToo) {
  Result<std::vector<Row>> rows = parse_alpaca(R"([{"instruction":"","input":"","output":""}])", "x");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0], Row{});
}

TEST(Alpaca, IgnoresFieldsThatItDoesNotKnowHoweverDeep) {
  std::string deep(5000, '['), end(5000, ']');
  std::string text = "[{\"text\":" + deep + end +
                     ",\"instruction\":\"a\",\"meta\":{\"output\":3,\"input\":[{}]},\"output\":\"c\",\"id\":1.5}]";
  Result<std::vector<Row>> rows = parse_alpaca(text, "x");
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0], (Row{"a", "", "c"}));
}

TEST(Alpaca, BrokenJsonIsNamedByFileLineAndByte) {
  std::string message = refusal("[\n{\"instruction\":\"a\",\"output\":\"c\"},\n{\"instruction\" \"b\"}]");
  EXPECT_HAS(message, "data.json:3:");
  EXPECT_HAS(message, "after 1 good rows");
  EXPECT_HAS(message, "byte 5");
  EXPECT_EQ(parse_alpaca("[{]", "x").error().code(), StatusCode::kCorrupt);
}

TEST(Alpaca, LineAndColumnPointAtTheFault) {
  EXPECT_HAS(refusal("[\n  {\"instruction\":\"a\",\n   \"output\": 5}]"), "data.json:3:");
  EXPECT_HAS(refusal("\n\n  oops"), "data.json:3:3 (byte 4)");
}

TEST(Alpaca, EveryTruncationOfAGoodFileIsRefused) {
  std::string text = kGood;
  for (std::size_t length = 0; length + 1 <= text.size(); ++length) {
    EXPECT_FALSE(parse_alpaca(text.substr(0, length), "x")) << length;
  }
}

TEST(Alpaca, HostileTextIsRefusedWithoutHarm) {
  EXPECT_HAS(refusal("[{\"instruction\":\"\xff\",\"output\":\"\"}]"), "UTF-8");
  EXPECT_HAS(refusal("[{\"instruction\":\"\\ud800\",\"output\":\"\"}]"), "surrogate");
  EXPECT_HAS(refusal("[{\"instruction\":\"a\nb\",\"output\":\"\"}]"), "control character");
  EXPECT_HAS(refusal("[{\"n\":1e9999,\"instruction\":\"a\",\"output\":\"\"}]"), "overflow");
  refusal(std::string_view("\0\0\0\0", 4));
  refusal(std::string(100000, '['));
  refusal(std::string(100000, '{'));
  refusal("PK\x03\x04");
  EXPECT_HAS(refusal(std::string(kGood) + "]"), "not valid JSON");
  EXPECT_HAS(refusal(std::string(kGood) + kGood), "not valid JSON");
}

TEST(Alpaca, ByteFlipsNeverCrash) {
  std::string text = kGood;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int flip : {1, 2, 32, 128}) {
      std::string broken = text;
      broken[i] = static_cast<char>(broken[i] ^ flip);
      (void)parse_alpaca(broken, "x").has_value();
    }
  }
}

TEST(Alpaca, RowsThatAreNoRowsAreNamedByNumber) {
  const std::string good = R"({"instruction":"a","output":"b"})";
  EXPECT_HAS(refusal("[" + good + R"(,{"instruction":"a","input":"x"}])"), "row 2 has no \"output\"");
  EXPECT_HAS(refusal("[" + good + R"(,{"input":"a","output":"x"}])"), "row 2 has no \"instruction\"");
  EXPECT_HAS(refusal(R"([{"instruction":"a","output":null}])"), "row 1 has null as \"output\"");
  EXPECT_HAS(refusal(R"([{"instruction":"a","output":12}])"), "row 1 has a number as \"output\"");
  EXPECT_HAS(refusal(R"([{"instruction":["a"],"output":""}])"), "row 1 has an array as \"instruction\"");
  EXPECT_HAS(refusal(R"([{"instruction":"a","input":{},"output":""}])"), "row 1 has an object as \"input\"");
  EXPECT_HAS(refusal(R"([{"instruction":"a","input":true,"output":""}])"), "row 1 has a boolean as \"input\"");
  EXPECT_HAS(refusal("[" + good + ", 7]"), "row 2 is a number, not an object");
  EXPECT_HAS(refusal("[" + good + ", [" + good + "]]"), "row 2 is an array, not an object");
  EXPECT_HAS(refusal("[{}]"), "row 1 has no");
  EXPECT_HAS(refusal(good + "\n{\"output\":\"x\"}\n"), "data.json:2:");
}

TEST(Alpaca, OtherDocumentsAreRefusedWithTheWayOut) {
  EXPECT_HAS(refusal("\"text\""), "a string at the top, not an array of rows");
  EXPECT_HAS(refusal("null"), "null at the top");
  EXPECT_HAS(refusal("{\n\"data\": []\n}"), "JSON Lines");
  EXPECT_HAS(refusal("{\"data\": []}"), "row 1 has no \"instruction\"");
}

TEST(Alpaca, AnEmptyDataSetIsAnError) {
  EXPECT_HAS(refusal(""), "empty");
  EXPECT_HAS(refusal(" \r\n\t"), "empty");
  EXPECT_HAS(refusal("\xEF\xBB\xBF"), "empty");
  EXPECT_HAS(refusal("[]"), "no rows");
  EXPECT_HAS(refusal("[ ]\n"), "no rows");
}

TEST(Alpaca, FilesThatCannotBeReadAreNamed) {
  Result<std::vector<Row>> missing = read_alpaca("/no/such/rows.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kUnavailable);
  EXPECT_HAS(missing.error().message(), "/no/such/rows.json");
  Result<std::vector<Row>> folder = read_alpaca(std::filesystem::temp_directory_path());
  ASSERT_FALSE(folder);
  EXPECT_HAS(folder.error().message(), "is a folder");
}

TEST(Alpaca, WhatIsWrittenIsReadBack) {
  std::vector<Row> rows{{"a \"quoted\"\n", "\t日本", ""}, {"", "", std::string("\0", 1)}, {"\\", "😀", "/"}};
  Result<std::vector<Row>> back = parse_alpaca(to_alpaca_json(rows), "x");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(*back, rows);
}

TEST(Alpaca, ReadsTheRealExcerpt) {
  if (!std::filesystem::exists(LOCKSTEP_ALPACA_SMALL)) GTEST_SKIP() << "no real data at " LOCKSTEP_ALPACA_SMALL;
  Result<std::vector<Row>> rows = read_alpaca(LOCKSTEP_ALPACA_SMALL);
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ(rows->size(), 2000U);
}

}  // namespace
}  // namespace lockstep::train
