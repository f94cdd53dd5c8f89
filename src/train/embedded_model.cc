// The embedded small Llama: random weights, then a short deterministic training on rows that the embedded data set does
// not contain, on one thread, so that the number of cores does not decide its bits.
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <string>
#include <system_error>

#include "train/embedded_data.h"
#include "train/embedded_tasks.h"
#include "train/file_bytes.h"
#include "train/loaded_model.h"
#include "train/material.h"
#include "train/tokenizer.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// Raised whenever shape or pre-training change; older caches are then left alone and not read.
constexpr int kModelVersion = 1;
constexpr std::uint64_t kModelSeed = 7;
constexpr std::uint64_t kPretrainingSeed = kEmbeddedSeed + 1;
constexpr std::size_t kPretrainingRows = 4000;
constexpr std::int64_t kPretrainingSteps = 150;
constexpr std::int64_t kPretrainingBatch = 16;

ModelConfig small_llama(const Tokenizer& tokenizer) {
  ModelConfig config;
  config.vocab_size = kEmbeddedVocab;
  config.hidden_size = 64;
  config.intermediate_size = 192;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 1024;
  config.rms_norm_eps = 1e-5;
  config.tied_embeddings = true;
  config.initializer_range = 0.05;
  config.bos_token_id = tokenizer.bos_id();
  config.eos_token_id = tokenizer.eos_id();
  config.pad_token_id = tokenizer.pad_id();
  return config;
}

Result<Material> pretraining_material(const fs::path& tokenizer_file) {
  auto tokenizer = Tokenizer::load(tokenizer_file);
  if (!tokenizer) return tokenizer.error();
  auto data =
      encode_rows(make_embedded_rows(kPretrainingRows, kPretrainingSeed), *tokenizer, {PromptTemplate::kPaper, 1024});
  if (!data) return data.error();
  auto model = make_model(small_llama(*tokenizer), kModelSeed);
  if (!model) return model.error();
  Material out;
  out.model = model->model;
  out.model_hash = model->hash;
  out.parameters = model->parameters;
  out.data = std::move(*data);
  out.tokenizer = tokenizer_file;
  return out;
}

Status pretrain(const fs::path& tokenizer, const fs::path& folder) {
  auto material = pretraining_material(tokenizer);
  if (!material) return material.error();
  TrainOptions options;
  options.batch = {kPretrainingBatch, 1, PartialStep::kDrop};
  options.max_steps = kPretrainingSteps;
  options.learning_rate = 3e-3;
  options.warmup_steps = kPretrainingSteps / 10;
  options.schedule = ScheduleKind::kCosine;
  options.precision = Precision::kFp32;
  options.deterministic = true;
  options.threads = 1;
  options.watch.enabled = false;
  options.save_to = folder;
  auto engine = make_virtual_engine(1);
  if (!engine) return engine.error();
  auto result = train(*material, options, **engine);
  return result ? Status::ok() : result.error();
}

// What the manifest must say of a folder's weights.
Result<std::string> manifest_of(const fs::path& folder) {
  std::string out = fmt::format("lockstep embedded model {}\n", kModelVersion);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
    auto bytes = read_file(folder / name);
    if (!bytes) return bytes.error();
    out += fmt::format("{} {:016x}\n", name, XXH3_64bits(bytes->data(), bytes->size()));
  }
  return out;
}

bool is_whole(const fs::path& folder) {
  auto said = read_file(folder / "manifest.txt");
  auto is = manifest_of(folder);
  return said && is && *said == *is;
}

}  // namespace

Result<EmbeddedModel> ensure_embedded_model(const fs::path& cache_dir) {
  const fs::path folder = cache_dir / fmt::format("embedded-model-v{}", kModelVersion);
  if (is_whole(folder)) return EmbeddedModel{folder, false};
  auto data = ensure_embedded_data(cache_dir);
  if (!data) return data.error();
  const fs::path temporary = cache_dir / fmt::format(".embedded-model-{}", ::getpid());
  std::error_code error;
  fs::remove_all(temporary, error);
  Status status = pretrain(data->tokenizer, temporary);
  if (status) {
    auto manifest = manifest_of(temporary);
    status = manifest ? write_file_atomically(temporary / "manifest.txt", *manifest) : manifest.error();
  }
  if (status && !is_whole(folder)) {  // else another process was faster, with the same bytes
    fs::remove_all(folder, error);
    fs::rename(temporary, folder, error);
  }
  fs::remove_all(temporary, error);
  if (!status) return status;
  if (!is_whole(folder)) {
    return Status(StatusCode::kIo,
                  fmt::format("{}: cannot put the embedded model in place; choose another cache folder or free some "
                              "space",
                              folder.string()));
  }
  return EmbeddedModel{folder, true};
}

}  // namespace lockstep::train
