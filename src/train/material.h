// What a run trains on: a model's weights, its tokenizer, the data set and a held-out slice of it.
//
// Loaded once, shared by any number of runs: a run copies the weights and reads the rest. The header needs no libtorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/status.h"
#include "train/examples.h"
#include "train/prompt.h"

namespace lockstep::train {

class CausalLm;

struct MaterialOptions {
  std::filesystem::path model;      // Hugging Face folder with tokenizer.model; empty: the embedded small Llama
  std::filesystem::path data;       // Alpaca JSON or JSON Lines; empty: the embedded rows
  std::filesystem::path cache_dir;  // where embedded ones are kept; empty: default_cache_dir()
  PromptTemplate form = PromptTemplate::kPaper;
  std::int64_t seq = 1024;
  std::int64_t max_rows = 0;   // only the first n rows; 0: all
  std::int64_t eval_rows = 0;  // evenly spaced rows that are held out of training; 0: none
};

struct Material {
  std::shared_ptr<const CausalLm> model;
  Dataset data;
  Dataset eval;  // no examples when nothing was held out
  std::int64_t parameters = 0;
  std::uint64_t model_hash = 0;  // of shape and weights: checkpoints of other models are refused
  std::uint64_t data_hash = 0;   // of the token sequences in order, held-out ones too
  std::string model_name, data_name;
  std::filesystem::path tokenizer;  // tokenizer.model
};

Result<Material> load_material(const MaterialOptions& options);

// LOCKSTEP_CACHE, else $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep, else a folder in the system's temporary one.
std::filesystem::path default_cache_dir();

// The embedded small Llama as a Hugging Face folder with its tokenizer; pre-trained for a few seconds the first time,
// so that "fine-tuning" starts from something. Safe when several processes ask at once.
struct EmbeddedModel {
  std::filesystem::path folder;
  bool made = false;  // false: it was in the cache
};
Result<EmbeddedModel> ensure_embedded_model(const std::filesystem::path& cache_dir);

}  // namespace lockstep::train
