// The two prompt templates that people train Alpaca rows with.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/status.h"
#include "train/alpaca.h"

namespace lockstep::train {

// How a row becomes text.
//   paper:    always the form with an input, even when it is empty; no end-of-text token after the response
//   stanford: two forms, with and without input; the response ends with the end-of-text token
enum class PromptTemplate { kPaper, kStanford };

const char* to_string(PromptTemplate form) noexcept;
Result<PromptTemplate> parse_prompt_template(std::string_view name);

// The fixed text of the templates, which the embedded tokenizer knows as single pieces.
inline constexpr std::string_view kHeaderWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.";
inline constexpr std::string_view kHeaderWithoutInput =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
inline constexpr std::string_view kInstructionMark = "\n\n### Instruction:\n";
inline constexpr std::string_view kInputMark = "\n\n### Input:\n";
inline constexpr std::string_view kResponseMark = "\n\n### Response:";

// What the model reads before the response.
std::string render_prompt(const Row& row, PromptTemplate form);
bool ends_with_eos(PromptTemplate form) noexcept;

}  // namespace lockstep::train
