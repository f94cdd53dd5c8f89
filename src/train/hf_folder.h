// A model from a Hugging Face folder and back: config.json and model.safetensors. Tokenizer files are not touched.
#pragma once

#include <filesystem>

#include "lockstep/status.h"
#include "train/model.h"

namespace lockstep::train {

// Weights become fp32 whatever the file holds (F32, F16, BF16). Every name, shape and dtype is checked before the first
// weight is allocated.
Result<CausalLm> load_folder(const std::filesystem::path& folder);

// Makes the folder where it is missing. Each file is replaced whole, weights first, so that a folder with a config.json
// has its weights. fp32, one file, a tied output layer once; transformers loads it.
Status save_folder(const CausalLm& model, const std::filesystem::path& folder);

}  // namespace lockstep::train
