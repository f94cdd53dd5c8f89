#include "train/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "train/embedded_tasks.h"

namespace lockstep::train {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string& model_bytes() {
  static const std::string kModel = [] {
    std::vector<std::string> texts;
    for (const Row& row : make_embedded_rows(600, 5)) {
      for (const std::string& text : {row.instruction, row.input, row.output}) texts.push_back(text);
    }
    TokenizerTraining training;
    training.vocab_size = 500;
    training.whole_pieces = {"\n", "a, \"whole\" piece"};
    Result<std::string> model = train_tokenizer(texts, training);
    EXPECT_TRUE(model) << model.error().message();
    return model.value_or("");
  }();
  return kModel;
}

Tokenizer tokenizer(const SpecialIds& ids = {}) {
  Result<Tokenizer> loaded = Tokenizer::from_bytes(model_bytes(), "test.model", ids);
  EXPECT_TRUE(loaded) << loaded.error().message();
  return std::move(loaded).value();
}

TEST(Tokenizer, BeginsWithBosAndAddsNoEos) {
  Tokenizer t = tokenizer();
  Ids ids = *t.encode("Sort the words.");
  EXPECT_EQ(ids.front(), t.bos_id());
  EXPECT_NE(ids.back(), t.eos_id());
  EXPECT_EQ(*t.encode(""), Ids{t.bos_id()});
}

TEST(Tokenizer, TextSurvivesEncodingAndDecoding) {
  Tokenizer t = tokenizer();
  for (std::string text : {"Sort the words.", "  two  spaces ", "tab\tand\nnewline\n\n", "日本語 ünï 😀", "0123456789",
                           "<s> </s> <unk> <0x0A>", "a, \"whole\" piece", "", " "}) {
    EXPECT_EQ(*t.decode(*t.encode(text)), text);
  }
}

TEST(Tokenizer, EmbeddedRowsSurviveEncodingAndDecoding) {
  Tokenizer t = tokenizer();
  for (const Row& row : make_embedded_rows(300, 99)) {
    std::string text = row.instruction + "\n" + row.input + "\n" + row.output;
    ASSERT_EQ(*t.decode(*t.encode(text)), text);
  }
}

TEST(Tokenizer, WholePiecesAreOneTokenEach) {
  Tokenizer t = tokenizer();
  std::size_t around = t.encode("xy")->size();
  EXPECT_EQ(t.encode("x\ny")->size(), around + 1);
  EXPECT_EQ(t.encode("xa, \"whole\" piecey")->size(), around + 1);
}

TEST(Tokenizer, FilesThatCannotBeReadAreNamed) {
  Result<Tokenizer> missing = Tokenizer::load("/no/such/tokenizer.model");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(missing.error().message().find("/no/such/tokenizer.model"), std::string::npos);
  EXPECT_FALSE(Tokenizer::load(std::filesystem::temp_directory_path()));
}

TEST(Tokenizer, BrokenModelsAreRefused) {
  for (std::string bytes : {std::string(), std::string("hello"), std::string(1000, '\xff'),
                            std::string("{\"model\": 1}"), model_bytes().substr(0, model_bytes().size() / 2)}) {
    Result<Tokenizer> loaded = Tokenizer::from_bytes(bytes, "broken.model");
    ASSERT_FALSE(loaded) << bytes.size();
    EXPECT_EQ(loaded.error().code(), StatusCode::kCorrupt);
    EXPECT_NE(loaded.error().message().find("broken.model"), std::string::npos);
  }
}

TEST(Tokenizer, MustFitTheModelsVocabulary) {
  Tokenizer t = tokenizer();
  EXPECT_TRUE(t.check_fits(t.vocab_size()));
  EXPECT_TRUE(t.check_fits(t.vocab_size() + 64)) << "vocabularies are padded to round sizes";
  Status status = t.check_fits(t.vocab_size() - 1);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("test.model"), std::string::npos);
  EXPECT_NE(status.message().find("belongs to another model"), std::string::npos);
  SpecialIds far;
  far.eos = 45892;
  EXPECT_FALSE(tokenizer(far).check_fits(t.vocab_size())) << "an EOS of the config beyond the embeddings";
}

TEST(Tokenizer, ConfiguredSpecialIdsOverrideTheModels) {
  SpecialIds ids;
  ids.bos = 7;
  ids.eos = 9;
  Tokenizer t = tokenizer(ids);
  EXPECT_EQ(t.bos_id(), 7);
  EXPECT_EQ(t.eos_id(), 9);
  EXPECT_EQ(t.pad_id(), 0);
  EXPECT_EQ(t.encode("x")->front(), 7);
}

TEST(Tokenizer, DecodingRefusesForeignIds) {
  Tokenizer t = tokenizer();
  EXPECT_FALSE(t.decode(Ids{static_cast<std::int32_t>(t.vocab_size())}));
  EXPECT_FALSE(t.decode(Ids{-100}));
  EXPECT_EQ(*t.decode(Ids{}), "");
}

TEST(TrainTokenizer, GivesTheSameBytesEachTimeAndSaysNothing) {
  std::vector<std::string> texts{"one two three", "two three four", "three four five"};
  TokenizerTraining training;
  training.vocab_size = 300;
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  Result<std::string> a = train_tokenizer(texts, training), b = train_tokenizer(texts, training);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  ASSERT_TRUE(a) << a.error().message();
  EXPECT_EQ(*a, *b);
}

TEST(TrainTokenizer, ImpossibleRequestsAreErrors) {
  TokenizerTraining training;
  EXPECT_FALSE(train_tokenizer({}, training));
  training.vocab_size = 3;
  std::vector<std::string> texts{"some text to learn from"};
  EXPECT_FALSE(train_tokenizer(texts, training));
}

}  // namespace
}  // namespace lockstep::train
