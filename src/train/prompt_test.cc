#include "train/prompt.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(Prompt, PapersFormAlwaysHasAnInputAndEndsWithANewline) {
  EXPECT_EQ(
      render_prompt({"Add.", "1 2", "3"}, PromptTemplate::kPaper),
      "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
      "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
      "### Response:\n");
  std::string empty = render_prompt({"Add.", "", "3"}, PromptTemplate::kPaper);
  EXPECT_NE(empty.find("### Instruction:\nAdd.\n\n### Input:\n\n\n### Response:\n"), std::string::npos) << empty;
  EXPECT_FALSE(ends_with_eos(PromptTemplate::kPaper));
}

TEST(Prompt, StanfordsFormDependsOnTheInput) {
  EXPECT_EQ(
      render_prompt({"Say hi.", "", "hi"}, PromptTemplate::kStanford),
      "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
      "### Instruction:\nSay hi.\n\n### Response:");
  std::string with = render_prompt({"Add.", "1 2", "3"}, PromptTemplate::kStanford);
  EXPECT_TRUE(with.ends_with("### Input:\n1 2\n\n### Response:")) << with;
  EXPECT_TRUE(ends_with_eos(PromptTemplate::kStanford));
}

TEST(Prompt, NamesAreReadBackAndOthersRefused) {
  for (auto form : {PromptTemplate::kPaper, PromptTemplate::kStanford}) {
    EXPECT_EQ(*parse_prompt_template(to_string(form)), form);
  }
  EXPECT_EQ(parse_prompt_template("chat").error().message(), "unknown template 'chat': paper or stanford");
}

}  // namespace
}  // namespace lockstep::train
