// From rows to batches: tokens, masked labels, truncation, padding, fingerprints.
//
// Labels stand at their token's own place (labels[i] belongs to ids[i]); the loss shifts by one, as in Hugging Face
// models. Prompt and pads carry kIgnoreLabel, so the loss is over response tokens only. Padding is on the right: under
// causal attention no real token sees a pad, so no attention mask is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/status.h"
#include "train/alpaca.h"
#include "train/prompt.h"
#include "train/tokenizer.h"

namespace lockstep::train {

inline constexpr std::int64_t kIgnoreLabel = -100;

// One row as tokens, at most `seq` of them, unpadded. The first `masked` are the prompt.
struct Example {
  std::vector<std::int32_t> ids;
  std::int32_t masked = 0;
  bool truncated = false;
  std::uint64_t fingerprint = 0;  // XXH3 of ids: rows with the same tokens have the same one

  std::int64_t response_tokens() const noexcept { return static_cast<std::int64_t>(ids.size()) - masked; }
  std::vector<std::int64_t> labels() const;
};

struct EncodeOptions {
  PromptTemplate form = PromptTemplate::kPaper;
  std::int64_t seq = 1024;
};

// What encoding did to the rows, for the log line before training.
struct EncodeReport {
  std::int64_t rows = 0;
  std::int64_t truncated = 0;        // lost tokens to `seq`
  std::int64_t without_target = 0;   // no response token left, or none to begin with: all labels ignored, kept
  std::int64_t first_without = -1;   // index of the first such row
  std::int64_t tokens = 0;           // after truncation, without pads
  std::int64_t response_tokens = 0;  // of these, targets of the loss
  std::int64_t longest = 0;
};

struct Dataset {
  std::vector<Example> examples;
  EncodeReport report;
  std::int64_t seq = 0;
  std::int32_t pad_id = 0;
};

Result<Example> encode_row(const Row& row, const Tokenizer& tokenizer, const EncodeOptions& options);

// Rows without a target stay, as the paper's scripts keep them (they weigh in a mean over micro-batches), but they are
// counted. A data set without a single target is an error: nothing could be learned from it.
Result<Dataset> encode_rows(std::span<const Row> rows, const Tokenizer& tokenizer, const EncodeOptions& options);

std::uint64_t fingerprint_tokens(std::span<const std::int32_t> ids) noexcept;

enum class Padding { kToSeq, kToLongest };  // to Dataset::seq, or to the longest example of the batch

// One micro-batch as contiguous row-major [rows, seq] buffers.
struct Batch {
  std::int64_t rows = 0;
  std::int64_t seq = 0;
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> lengths;        // real tokens per row
  std::vector<std::uint64_t> fingerprints;  // per row, for Monitor::on_batch
  std::int64_t response_tokens = 0;         // targets of the loss, for Monitor::on_loss
};

// kInvalidArgument for an index outside the data set or no indices at all.
Result<Batch> collate(const Dataset& data, std::span<const std::int64_t> indices, Padding padding);

}  // namespace lockstep::train
