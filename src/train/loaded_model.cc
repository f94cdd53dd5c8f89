#include "train/loaded_model.h"

#include <xxhash.h>

#include <string>

#include "lockstep/digest.h"
#include "train/hf_folder.h"
#include "train/model.h"

namespace lockstep::train {
namespace {

// Names and shapes, then the bits: models of equal hash compute the same.
std::uint64_t hash_of(const CausalLm& model) {
  const std::string shape = format_config(model.config());
  std::uint64_t hash = XXH3_64bits(shape.data(), shape.size());
  std::uint32_t index = 0;
  for (const Parameter& parameter : model.parameters()) {
    hash += content_hash({index++, 0, parameter.tensor.data_ptr<float>(),
                          static_cast<std::uint64_t>(parameter.tensor.numel()), DType::kFloat32});
  }
  return hash;
}

Result<LoadedModel> handle(Result<CausalLm> model) {
  if (!model) return model.error();
  LoadedModel out;
  out.config = model->config();
  out.parameters = parameter_count(model->config());
  out.hash = hash_of(*model);
  out.model = std::make_shared<const CausalLm>(std::move(*model));
  return out;
}

}  // namespace

Result<LoadedModel> load_model(const std::filesystem::path& folder) {
  return handle(load_folder(folder));
}

Result<LoadedModel> make_model(const ModelConfig& config, std::uint64_t seed) {
  return handle(CausalLm::make(config, seed));
}

}  // namespace lockstep::train
