// A SentencePiece model (tokenizer.model) as training uses it.
//
// Owns the model. Encoding is const and may run on several threads at once. What a Hugging Face folder says in JSON
// about special tokens comes in through SpecialIds; the JSON itself is read elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

// Ids that override the model's own; kFromModel leaves the model's.
struct SpecialIds {
  static constexpr std::int32_t kFromModel = -1;
  std::int32_t bos = kFromModel;
  std::int32_t eos = kFromModel;
  std::int32_t pad = kFromModel;
};

class Tokenizer {
 public:
  static Result<Tokenizer> load(const std::filesystem::path& file, const SpecialIds& ids = {});
  // `name` stands for the file in messages.
  static Result<Tokenizer> from_bytes(std::string_view model, std::string_view name, const SpecialIds& ids = {});
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // BOS, then the text's pieces. No EOS: the template decides about that.
  Result<std::vector<std::int32_t>> encode(std::string_view text) const;
  // The text of `ids` without special tokens. An id outside the tokenizer is an error.
  Result<std::string> decode(std::span<const std::int32_t> ids) const;

  std::int64_t vocab_size() const noexcept;
  std::int32_t bos_id() const noexcept { return ids_.bos; }
  std::int32_t eos_id() const noexcept { return ids_.eos; }
  std::int32_t pad_id() const noexcept { return ids_.pad; }  // EOS where the model has none: pads are masked anyway

  // A model of `model_vocab` embeddings must have a row for every id that this tokenizer can give. (More is fine:
  // vocabularies are padded to round sizes.)
  Status check_fits(std::int64_t model_vocab) const;

 private:
  struct Impl;
  Tokenizer(std::unique_ptr<Impl> impl, std::string name, const SpecialIds& ids);
  std::unique_ptr<Impl> impl_;
  std::string name_;
  SpecialIds ids_;
};

struct TokenizerTraining {
  std::int32_t vocab_size = 800;
  std::vector<std::string> whole_pieces;  // always one token each, spaces and newlines included
};

// Trains a BPE model with byte fallback and without any normalisation, so that every text survives encoding and
// decoding. Quiet, on one thread, the same bytes for the same input. Gives the bytes of a tokenizer.model.
Result<std::string> train_tokenizer(std::span<const std::string> texts, const TokenizerTraining& options);

}  // namespace lockstep::train
