// Training half of tokenizer.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/piece_library.h"
#include "train/tokenizer.h"

namespace lockstep::train {
namespace {

// The trainer works on sentences without line breaks.
std::vector<std::string> split_lines(std::span<const std::string> texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::size_t begin = 0;
    while (begin < text.size()) {
      std::size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return lines;
}

// A piece as one field of the comma-separated list that the trainer's text interface takes. Pieces are matched against
// text whose spaces have already become SentencePiece's own mark (U+2581).
std::string piece_field(std::string_view piece) {
  std::string out = "\"";
  for (char c : piece) {
    if (c == ' ') {
      out += "\xE2\x96\x81";
      continue;
    }
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

Result<std::string> train_tokenizer(std::span<const std::string> texts, const TokenizerTraining& options) {
  std::string symbols;
  for (const std::string& piece : options.whole_pieces) {
    if (!symbols.empty()) symbols += ',';
    symbols += piece_field(piece);
  }
  std::unordered_map<std::string, std::string> settings{
      {"vocab_size", std::to_string(options.vocab_size)},
      {"model_type", "bpe"},
      {"byte_fallback", "true"},
      {"split_digits", "true"},
      {"character_coverage", "1.0"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"pad_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"unk_id", "3"},
      {"num_threads", "1"},
      {"hard_vocab_limit", "false"},
      {"minloglevel", "3"},  // the trainer is talkative on standard error
  };
  if (!symbols.empty()) settings["user_defined_symbols"] = symbols;
  auto library = piece_library();
  if (!library) return library.error();
  auto model = (*library)->train(split_lines(texts), settings);
  if (model) return model;
  return Status(model.error().code(), fmt::format("training a tokenizer of {} pieces on {} texts failed: {}",
                                                  options.vocab_size, texts.size(), model.error().message()));
}

}  // namespace lockstep::train
