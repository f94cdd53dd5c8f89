#include "train/examples.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::train {

std::vector<std::int64_t> Example::labels() const {
  std::vector<std::int64_t> out(ids.begin(), ids.end());
  std::fill_n(out.begin(), masked, kIgnoreLabel);
  return out;
}

std::uint64_t fingerprint_tokens(std::span<const std::int32_t> ids) noexcept {
  static_assert(std::endian::native == std::endian::little, "fingerprints are over little-endian tokens");
  return XXH3_64bits(ids.data(), ids.size_bytes());
}

Result<Example> encode_row(const Row& row, const Tokenizer& tokenizer, const EncodeOptions& options) {
  if (options.seq < 1) {
    return Status(StatusCode::kInvalidArgument, fmt::format("sequence length {}: must be at least 1", options.seq));
  }
  // Prompt and response are encoded together, as at inference the model sees them; the mask ends where the prompt alone
  // would. Pieces that would join across the border are thus split as both published recipes split them.
  std::string prompt = render_prompt(row, options.form);
  Result<std::vector<std::int32_t>> prompt_ids = tokenizer.encode(prompt);
  if (!prompt_ids) return prompt_ids.error();
  Result<std::vector<std::int32_t>> ids = tokenizer.encode(prompt + row.output);
  if (!ids) return ids.error();
  if (ends_with_eos(options.form)) ids->push_back(tokenizer.eos_id());

  Example example;
  example.ids = std::move(*ids);
  example.truncated = static_cast<std::int64_t>(example.ids.size()) > options.seq;
  if (example.truncated) example.ids.resize(static_cast<std::size_t>(options.seq));
  example.masked = static_cast<std::int32_t>(std::min(prompt_ids->size(), example.ids.size()));
  example.fingerprint = fingerprint_tokens(example.ids);
  return example;
}

Result<Dataset> encode_rows(std::span<const Row> rows, const Tokenizer& tokenizer, const EncodeOptions& options) {
  if (rows.empty()) return Status(StatusCode::kInvalidArgument, "the data set has no rows");
  Dataset data;
  data.seq = options.seq;
  data.pad_id = tokenizer.pad_id();
  data.examples.reserve(rows.size());
  EncodeReport& report = data.report;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Result<Example> example = encode_row(rows[i], tokenizer, options);
    if (!example) {
      return Status(example.error().code(), fmt::format("row {}: {}", i + 1, example.error().message()));
    }
    ++report.rows;
    if (example->truncated) ++report.truncated;
    if (example->response_tokens() == 0) {
      if (report.without_target == 0) report.first_without = static_cast<std::int64_t>(i);
      ++report.without_target;
    }
    report.tokens += static_cast<std::int64_t>(example->ids.size());
    report.response_tokens += example->response_tokens();
    report.longest = std::max(report.longest, static_cast<std::int64_t>(example->ids.size()));
    data.examples.push_back(std::move(*example));
  }
  if (report.response_tokens == 0) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("none of the {} rows has a response token within {} tokens, so there is nothing to learn: "
                    "raise the sequence length or check the outputs",
                    report.rows, options.seq));
  }
  return data;
}

Result<Batch> collate(const Dataset& data, std::span<const std::int64_t> indices, Padding padding) {
  if (indices.empty()) return Status(StatusCode::kInvalidArgument, "a batch of no samples");
  Batch batch;
  batch.rows = static_cast<std::int64_t>(indices.size());
  batch.seq = padding == Padding::kToSeq ? data.seq : 0;
  for (std::int64_t index : indices) {
    if (index < 0 || index >= static_cast<std::int64_t>(data.examples.size())) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("sample {} is outside the data set of {}", index, data.examples.size()));
    }
    auto length = static_cast<std::int64_t>(data.examples[static_cast<std::size_t>(index)].ids.size());
    batch.seq = std::max(batch.seq, length);
  }
  auto elements = static_cast<std::size_t>(batch.rows * batch.seq);
  batch.input_ids.assign(elements, data.pad_id);
  batch.labels.assign(elements, kIgnoreLabel);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const Example& example = data.examples[static_cast<std::size_t>(indices[row])];
    auto first = static_cast<std::ptrdiff_t>(row) * batch.seq;
    std::copy(example.ids.begin(), example.ids.end(), batch.input_ids.begin() + first);
    std::copy(example.ids.begin() + example.masked, example.ids.end(), batch.labels.begin() + first + example.masked);
    batch.lengths.push_back(static_cast<std::int64_t>(example.ids.size()));
    batch.fingerprints.push_back(example.fingerprint);
    batch.response_tokens += example.response_tokens();
  }
  return batch;
}

}  // namespace lockstep::train
