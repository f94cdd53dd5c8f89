// Alpaca-format data files: rows of {"instruction", "input", "output"}.
//
// A file is a JSON array of rows or JSON Lines. Rows are built while the text is parsed, without a document tree in
// between. Whatever is wrong is reported with file, row, line and byte; a data set is read whole or not at all.
// How rows become prompts is in prompt.h, how they become tokens in examples.h.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

struct Row {
  std::string instruction;
  std::string input;   // often empty; absent and null read as empty
  std::string output;  // may be empty (the public set has such rows), but must be there

  bool operator==(const Row&) const = default;
};

// kCorrupt for broken JSON, kInvalidArgument for a row that is no Alpaca row or a set without rows, kUnavailable or
// kIo when the file cannot be read. `name` stands for the file in messages.
Result<std::vector<Row>> parse_alpaca(std::string_view text, std::string_view name);
Result<std::vector<Row>> read_alpaca(const std::filesystem::path& file);

// The rows as a JSON array, one row per line; parse_alpaca gives the same rows back.
std::string to_alpaca_json(const std::vector<Row>& rows);

}  // namespace lockstep::train
