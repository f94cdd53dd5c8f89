// A model behind a handle, for the parts of the trainer that only pass it on: the header needs no libtorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "lockstep/status.h"
#include "train/model_config.h"

namespace lockstep::train {

class CausalLm;

struct LoadedModel {
  std::shared_ptr<const CausalLm> model;
  ModelConfig config;
  std::int64_t parameters = 0;
  std::uint64_t hash = 0;  // of shape and weights
};

// From a Hugging Face folder, or with random weights from `seed`.
Result<LoadedModel> load_model(const std::filesystem::path& folder);
Result<LoadedModel> make_model(const ModelConfig& config, std::uint64_t seed);

}  // namespace lockstep::train
