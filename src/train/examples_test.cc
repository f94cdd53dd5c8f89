#include "train/examples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "train/embedded_tasks.h"

namespace lockstep::train {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer = [] {
    std::vector<std::string> texts;
    for (const Row& row : make_embedded_rows(600, 5)) {
      for (const std::string& text : {row.instruction, row.input, row.output}) texts.push_back(text);
    }
    TokenizerTraining training;
    training.vocab_size = 500;
    training.whole_pieces = {"\n", std::string(kHeaderWithInput)};
    return std::move(Tokenizer::from_bytes(*train_tokenizer(texts, training), "test.model")).value();
  }();
  return kTokenizer;
}

Example encoded(const Row& row, PromptTemplate form, std::int64_t seq) {
  Result<Example> example = encode_row(row, tokenizer(), {form, seq});
  EXPECT_TRUE(example) << example.error().message();
  return example.value_or(Example{});
}

std::string text_of(std::span<const std::int32_t> ids) {
  return *tokenizer().decode(ids);
}

const Row kRow{"Sort the words.", "b, a", "a, b"};

TEST(EncodeRow, MasksThePromptAndNothingElse) {
  Example example = encoded(kRow, PromptTemplate::kPaper, 1024);
  std::span<const std::int32_t> ids = example.ids;
  auto masked = static_cast<std::size_t>(example.masked);
  EXPECT_EQ(text_of(ids.first(masked)), render_prompt(kRow, PromptTemplate::kPaper));
  EXPECT_EQ(text_of(ids), render_prompt(kRow, PromptTemplate::kPaper) + kRow.output);
  std::vector<std::int64_t> labels = example.labels();
  for (std::size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(labels[i], i < masked ? kIgnoreLabel : ids[i]);
  EXPECT_FALSE(example.truncated);
}

TEST(EncodeRow, OnlyStanfordsFormEndsWithEos) {
  EXPECT_NE(encoded(kRow, PromptTemplate::kPaper, 1024).ids.back(), tokenizer().eos_id());
  Example stanford = encoded(kRow, PromptTemplate::kStanford, 1024);
  EXPECT_EQ(stanford.ids.back(), tokenizer().eos_id());
  EXPECT_EQ(stanford.labels().back(), tokenizer().eos_id()) << "the model learns to stop";
}

TEST(EncodeRow, EveryLengthTruncatesToAPrefix) {
  Example whole = encoded(kRow, PromptTemplate::kStanford, 1024);
  for (std::int64_t seq = 1; seq <= static_cast<std::int64_t>(whole.ids.size()) + 1; ++seq) {
    Example cut = encoded(kRow, PromptTemplate::kStanford, seq);
    auto length = std::min(seq, static_cast<std::int64_t>(whole.ids.size()));
    ASSERT_EQ(static_cast<std::int64_t>(cut.ids.size()), length);
    EXPECT_TRUE(std::equal(cut.ids.begin(), cut.ids.end(), whole.ids.begin()));
    EXPECT_EQ(cut.truncated, length < static_cast<std::int64_t>(whole.ids.size()));
    EXPECT_EQ(cut.response_tokens(), std::max<std::int64_t>(0, length - whole.masked));
    EXPECT_EQ(std::ssize(cut.labels()), length);
  }
  EXPECT_FALSE(encode_row(kRow, tokenizer(), {PromptTemplate::kPaper, 0}));
}

TEST(EncodeRows, CountsWhatTruncationTook) {
  Example whole = encoded(kRow, PromptTemplate::kPaper, 1024);
  std::vector<Row> rows{kRow, {"Sort the words. " + std::string(200, 'x'), "", "a"}, {"x", "", ""}};
  auto seq = static_cast<std::int64_t>(whole.ids.size());
  Result<Dataset> data = encode_rows(rows, tokenizer(), {PromptTemplate::kPaper, seq});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ(data->examples.size(), 3U) << "rows without a target are kept";
  EXPECT_EQ(data->report.rows, 3);
  EXPECT_EQ(data->report.truncated, 1);
  EXPECT_EQ(data->report.without_target, 2) << "one cut away, one empty from the start";
  EXPECT_EQ(data->report.first_without, 1);
  EXPECT_EQ(data->report.response_tokens, whole.response_tokens());
  EXPECT_EQ(data->report.longest, seq);
  for (std::int64_t label : data->examples[1].labels()) EXPECT_EQ(label, kIgnoreLabel);
}

TEST(EncodeRows, NothingToLearnIsAnError) {
  std::vector<Row> rows{kRow, kRow};
  Result<Dataset> data = encode_rows(rows, tokenizer(), {PromptTemplate::kPaper, 4});
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().message().find("raise the sequence length"), std::string::npos) << data.error().message();
  EXPECT_FALSE(encode_rows({}, tokenizer(), {}));
}

TEST(Fingerprint, IsOfTheTokensAndOfTheirOrder) {
  Row other = kRow;
  other.output = "a, c";
  EXPECT_EQ(encoded(kRow, PromptTemplate::kPaper, 64).fingerprint,
            encoded(kRow, PromptTemplate::kPaper, 1024).fingerprint);
  EXPECT_NE(encoded(kRow, PromptTemplate::kPaper, 64).fingerprint,
            encoded(other, PromptTemplate::kPaper, 64).fingerprint);
  std::vector<std::int32_t> a{1, 2, 3}, b{3, 2, 1}, padded{1, 2, 3, 0};
  std::set<std::uint64_t> all{fingerprint_tokens(a), fingerprint_tokens(b), fingerprint_tokens(padded),
                              fingerprint_tokens({})};
  EXPECT_EQ(all.size(), 4U);
  EXPECT_EQ(fingerprint_tokens(a), 0x6bbf7429332bea48ULL)
      << "stored: fingerprints may be compared between runs and versions";
}

TEST(Collate, PadsToSeqOrToTheLongest) {
  std::vector<Row> rows{kRow, {"x", "", "a longer answer that has more tokens"}, {"x", "", "y"}};
  Dataset data = *encode_rows(rows, tokenizer(), {PromptTemplate::kPaper, 96});
  std::vector<std::int64_t> indices{2, 1};
  Batch fixed = *collate(data, indices, Padding::kToSeq);
  Batch tight = *collate(data, indices, Padding::kToLongest);
  EXPECT_EQ(fixed.seq, 96);
  EXPECT_EQ(tight.seq, std::ssize(data.examples[1].ids));
  for (const Batch& batch : {fixed, tight}) {
    ASSERT_EQ(std::ssize(batch.input_ids), 2 * batch.seq);
    ASSERT_EQ(std::ssize(batch.labels), 2 * batch.seq);
    std::int64_t targets = 0;
    for (std::int64_t row = 0; row < 2; ++row) {
      const Example& example = data.examples[static_cast<std::size_t>(indices[static_cast<std::size_t>(row)])];
      for (std::int64_t i = 0; i < batch.seq; ++i) {
        auto at = static_cast<std::size_t>(row * batch.seq + i);
        bool pad = i >= std::ssize(example.ids);
        EXPECT_EQ(batch.input_ids[at], pad ? data.pad_id : example.ids[static_cast<std::size_t>(i)]);
        bool target = !pad && i >= example.masked;
        EXPECT_EQ(batch.labels[at], target ? example.ids[static_cast<std::size_t>(i)] : kIgnoreLabel);
        targets += target ? 1 : 0;
      }
      EXPECT_EQ(batch.lengths[static_cast<std::size_t>(row)], std::ssize(example.ids));
      EXPECT_EQ(batch.fingerprints[static_cast<std::size_t>(row)], example.fingerprint);
    }
    EXPECT_EQ(batch.response_tokens, targets);
  }
}

TEST(Collate, RefusesForeignIndices) {
  std::vector<Row> rows{kRow};
  Dataset data = *encode_rows(rows, tokenizer(), {PromptTemplate::kPaper, 96});
  for (std::int64_t bad : {-1, 1, 1000}) {
    std::vector<std::int64_t> indices{0, bad};
    EXPECT_FALSE(collate(data, indices, Padding::kToSeq)) << bad;
  }
  EXPECT_FALSE(collate(data, {}, Padding::kToSeq));
}

TEST(EncodeRows, TakesRealRowsInBothForms) {
  if (!std::filesystem::exists(LOCKSTEP_ALPACA_SMALL)) GTEST_SKIP() << "no real data at " LOCKSTEP_ALPACA_SMALL;
  Result<std::vector<Row>> rows = read_alpaca(LOCKSTEP_ALPACA_SMALL);
  ASSERT_TRUE(rows) << rows.error().message();
  for (auto form : {PromptTemplate::kPaper, PromptTemplate::kStanford}) {
    Result<Dataset> data = encode_rows(*rows, tokenizer(), {form, 512});
    ASSERT_TRUE(data) << data.error().message();
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const Example& example = data->examples[i];
      if (example.truncated) continue;
      ASSERT_EQ(text_of(example.ids), render_prompt((*rows)[i], form) + (*rows)[i].output) << i;
    }
    EXPECT_LT(data->report.truncated, 400);
  }
}

}  // namespace
}  // namespace lockstep::train
