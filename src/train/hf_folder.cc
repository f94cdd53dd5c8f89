#include "train/hf_folder.h"

#include <fmt/core.h>

#include "train/atomic_file.h"
#include "train/hf_weights.h"
#include "train/tensor_file.h"
#include "train/torch_guard.h"

namespace lockstep::train {
namespace {

Result<at::Tensor> read_weight(const HfWeights::Location& location) {
  auto tensor = read_tensor(*location.file, *location.info);
  if (!tensor) return tensor;
  return guard_torch("convert a weight", [&]() -> Result<at::Tensor> { return tensor->to(at::kFloat); });
}

// transformers drops a separate output layer when the config ties it. One that differs was trained apart, and dropping
// it would silently change the model.
Status check_tied_output(const HfWeights& weights, const at::Tensor& embedding) {
  const HfWeights::Location* location = weights.find("lm_head.weight");
  if (location == nullptr) return Status::ok();
  auto output = read_weight(*location);
  if (!output) return output.error();
  return guard_torch("compare the tied weights", [&]() -> Status {
    if (output->sizes() == embedding.sizes() && output->equal(embedding)) return Status::ok();
    return {
        StatusCode::kCorrupt,
        fmt::format("{}: \"lm_head.weight\" differs from \"model.embed_tokens.weight\", but config.json ties them: set "
                    "\"tie_word_embeddings\" to false if the output layer is its own",
                    location->file->source())};
  });
}

}  // namespace

Result<CausalLm> load_folder(const std::filesystem::path& folder) {
  auto config = load_config(folder);
  if (!config) return config.error();
  auto weights = HfWeights::open(folder);
  if (!weights) return weights.error();
  if (Status status = weights->check(*config); !status) return status;
  std::vector<at::Tensor> tensors;
  for (const ParameterSpec& spec : parameter_specs(*config)) {
    auto tensor = read_weight(*weights->find(spec.name));
    if (!tensor) return tensor.error();
    tensors.push_back(std::move(*tensor));
  }
  if (config->tied_embeddings) {
    if (Status status = check_tied_output(*weights, tensors.front()); !status) return status;
  }
  return CausalLm::from_tensors(*config, std::move(tensors));
}

Status save_folder(const CausalLm& model, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return {StatusCode::kIo, fmt::format("{}: cannot create the folder: {}", folder.string(), error.message())};
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters()) tensors.emplace_back(parameter.name, parameter.tensor);
  // transformers reads weights only from files whose metadata names the framework.
  if (Status status = write_tensors(folder / "model.safetensors", tensors, {{"format", "pt"}}); !status) return status;
  auto config = AtomicFile::create(folder / "config.json");
  if (!config) return config.error();
  if (Status status = config->write(format_config(model.config())); !status) return status;
  return config->commit();
}

}  // namespace lockstep::train
