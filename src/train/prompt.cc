#include "train/prompt.h"

#include <fmt/format.h>

namespace lockstep::train {

const char* to_string(PromptTemplate form) noexcept {
  return form == PromptTemplate::kPaper ? "paper" : "stanford";
}

Result<PromptTemplate> parse_prompt_template(std::string_view name) {
  if (name == "paper") return PromptTemplate::kPaper;
  if (name == "stanford") return PromptTemplate::kStanford;
  return Status(StatusCode::kInvalidArgument, fmt::format("unknown template '{}': paper or stanford", name));
}

std::string render_prompt(const Row& row, PromptTemplate form) {
  bool with_input = form == PromptTemplate::kPaper || !row.input.empty();
  std::string text(with_input ? kHeaderWithInput : kHeaderWithoutInput);
  text += kInstructionMark;
  text += row.instruction;
  if (with_input) {
    text += kInputMark;
    text += row.input;
  }
  text += kResponseMark;
  if (form == PromptTemplate::kPaper) text += '\n';  // Stanford's target follows the colon directly
  return text;
}

bool ends_with_eos(PromptTemplate form) noexcept {
  return form == PromptTemplate::kStanford;
}

}  // namespace lockstep::train
