#include "train/material.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "train/alpaca.h"
#include "train/embedded_data.h"
#include "train/loaded_model.h"
#include "train/tokenizer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFile = "tokenizer.model";

std::optional<fs::path> from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

// The model's own special tokens win over the tokenizer's: padding and BOS must be what it was trained with.
Result<Tokenizer> load_tokenizer(const fs::path& file, const ModelConfig& config) {
  SpecialIds ids;
  const auto set = [](std::int32_t& id, const std::optional<std::int64_t>& given) {
    if (given && *given >= 0) id = static_cast<std::int32_t>(*given);
  };
  set(ids.bos, config.bos_token_id);
  set(ids.eos, config.eos_token_id);
  set(ids.pad, config.pad_token_id);
  auto tokenizer = Tokenizer::load(file, ids);
  if (!tokenizer) return tokenizer;
  if (Status status = tokenizer->check_fits(config.vocab_size); !status) return status;
  return tokenizer;
}

std::uint64_t hash_of(const Dataset& data, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (const Example& example : data.examples) {
    const std::uint64_t parts[] = {example.fingerprint, static_cast<std::uint64_t>(example.masked)};
    hash = XXH3_64bits_withSeed(parts, sizeof(parts), hash);
  }
  return hash;
}

// Takes `count` evenly spaced examples out of `data`.
Status hold_out(std::int64_t count, Dataset& data, Dataset& eval) {
  const auto rows = static_cast<std::int64_t>(data.examples.size());
  if (count <= 0) return Status::ok();
  if (count >= rows) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} rows held out of {}: none would be left to train on", count, rows)};
  }
  std::vector<Example> kept;
  std::int64_t taken = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    Example& example = data.examples[static_cast<std::size_t>(row)];
    const bool out = row == (2 * taken + 1) * rows / (2 * count) && taken < count;
    taken += out ? 1 : 0;
    (out ? eval.examples : kept).push_back(std::move(example));
  }
  data.examples = std::move(kept);
  return Status::ok();
}

Result<fs::path> data_file(const MaterialOptions& options, const fs::path& cache) {
  if (!options.data.empty()) return options.data;
  auto embedded = ensure_embedded_data(cache);
  if (!embedded) return embedded.error();
  return embedded->rows;
}

Result<fs::path> model_folder(const MaterialOptions& options, const fs::path& cache) {
  if (!options.model.empty()) return options.model;
  auto embedded = ensure_embedded_model(cache);
  if (!embedded) return embedded.error();
  return embedded->folder;
}

}  // namespace

fs::path default_cache_dir() {
  if (auto own = from_environment("LOCKSTEP_CACHE")) return *own;
  if (auto cache = from_environment("XDG_CACHE_HOME")) return *cache / "lockstep";
  if (auto home = from_environment("HOME")) return *home / ".cache" / "lockstep";
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  return (error ? fs::path(".") : temporary) / "lockstep-cache";
}

Result<Material> load_material(const MaterialOptions& options) {
  const fs::path cache = options.cache_dir.empty() ? default_cache_dir() : options.cache_dir;
  // The data first: it is what people get wrong most often, and cheaper to read than a model.
  auto file = data_file(options, cache);
  if (!file) return file.error();
  auto rows = read_alpaca(*file);
  if (!rows) return rows.error();
  if (options.max_rows > 0 && static_cast<std::size_t>(options.max_rows) < rows->size()) {
    rows->resize(static_cast<std::size_t>(options.max_rows));
  }
  auto folder = model_folder(options, cache);
  if (!folder) return folder.error();
  auto model = load_model(*folder);
  if (!model) return model.error();

  Material out;
  out.tokenizer = *folder / kTokenizerFile;
  auto tokenizer = load_tokenizer(out.tokenizer, model->config);
  if (!tokenizer) return tokenizer.error();
  const std::int64_t seq = std::min(options.seq, model->config.max_positions);
  auto data = encode_rows(*rows, *tokenizer, {options.form, seq});
  if (!data) return data.error();
  out.data = std::move(*data);
  out.eval.seq = out.data.seq;
  out.eval.pad_id = out.data.pad_id;
  if (Status status = hold_out(options.eval_rows, out.data, out.eval); !status) return status;
  out.data_hash = hash_of(out.eval, hash_of(out.data, static_cast<std::uint64_t>(seq)));
  out.model = model->model;
  out.parameters = model->parameters;
  out.model_hash = model->hash;
  out.model_name = options.model.empty() ? "embedded small Llama" : options.model.string();
  out.data_name = options.data.empty() ? "embedded rows" : options.data.string();
  return out;
}

}  // namespace lockstep::train
