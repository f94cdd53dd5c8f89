// The weight files of a Hugging Face folder, seen as one set of named tensors.
//
// In the order in which transformers looks: model.safetensors; else model.safetensors.index.json and the shards that it
// names; else all *.safetensors of the folder. Every header is checked before any data is read. Needs no libtorch.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"
#include "train/model_config.h"
#include "train/safetensors.h"

namespace lockstep::train {

class HfWeights {
 public:
  struct Location {
    const SafetensorsReader* file = nullptr;
    const TensorInfo* info = nullptr;
  };

  static Result<HfWeights> open(const std::filesystem::path& folder);

  const std::string& source() const noexcept { return source_; }
  const std::map<std::string, Location>& tensors() const noexcept { return tensors_; }
  const Location* find(const std::string& name) const;

  // That these are the weights of `config`: nothing missing, nothing unexpected, every shape right, every dtype one
  // that training can use. Names up to a handful of offenders.
  Status check(const ModelConfig& config) const;

 private:
  Status add_file(const std::filesystem::path& path);
  Status add_indexed(const std::filesystem::path& folder, const std::filesystem::path& index);
  Status add_all(const std::filesystem::path& folder);
  std::string source_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::map<std::string, Location> tensors_;
};

// ModelConfig of a folder's config.json.
Result<ModelConfig> load_config(const std::filesystem::path& folder);

}  // namespace lockstep::train
