#include "train/hf_weights.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "train/atomic_file.h"
#include "train/json_text.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = 1 << 20;
constexpr std::size_t kMaxIndexBytes = 64 << 20;
constexpr std::size_t kNamesShown = 5;
constexpr const char* kOutputLayer = "lm_head.weight";

// "a, b, c and 4 more"
std::string name_list(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(names.size(), kNamesShown);
  const std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return names.size() > shown ? fmt::format("{} and {} more", list, names.size() - shown) : list;
}

// Tensors that a checkpoint may hold beside its parameters: RoPE frequencies that old transformers saved, and an output
// layer beside the embedding that it is tied to.
bool is_ignorable(const std::string& name, const ModelConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied_embeddings && name == kOutputLayer);
}

bool is_trainable(TensorDtype dtype) {
  return dtype == TensorDtype::kF32 || dtype == TensorDtype::kF16 || dtype == TensorDtype::kBf16;
}

// A shard's name in an index must stay inside the folder.
bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

}  // namespace

Result<ModelConfig> load_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  auto text = read_text_file(path, kMaxConfigBytes);
  if (!text) {
    if (text.error().code() != StatusCode::kUnavailable) return text.error();
    return Status(StatusCode::kUnavailable,
                  fmt::format("{}: not found: expected a Hugging Face model folder with config.json "
                              "and *.safetensors",
                              path.string()));
  }
  return parse_config(*text, path.string());
}

Result<HfWeights> HfWeights::open(const fs::path& folder) {
  HfWeights weights;
  std::error_code ignored;
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  Status status;
  if (fs::exists(single, ignored)) {
    weights.source_ = single.string();
    status = weights.add_file(single);
  } else if (fs::exists(index, ignored)) {
    weights.source_ = index.string();
    status = weights.add_indexed(folder, index);
  } else {
    weights.source_ = folder.string();
    status = weights.add_all(folder);
  }
  if (!status) return status;
  return weights;
}

Status HfWeights::add_file(const fs::path& path) {
  auto opened = SafetensorsReader::open(path);
  if (!opened) return opened.error();
  const auto& file = files_.emplace_back(std::make_unique<SafetensorsReader>(std::move(*opened)));
  for (const TensorInfo& info : file->tensors()) {
    const auto [previous, fresh] = tensors_.try_emplace(info.name, Location{file.get(), &info});
    if (!fresh) {
      return {StatusCode::kCorrupt, fmt::format("tensor \"{}\" is in two files: {} and {}", printable(info.name),
                                                previous->second.file->source(), file->source())};
    }
  }
  return Status::ok();
}

Status HfWeights::add_indexed(const fs::path& folder, const fs::path& index) {
  auto text = read_text_file(index, kMaxIndexBytes);
  if (!text) return text.error();
  auto document = parse_json_object(*text, index.string());
  if (!document) return document.error();
  const auto map = document->find("weight_map");
  if (map == document->end() || !map->is_object() || map->empty()) {
    return {StatusCode::kCorrupt, fmt::format("{}: \"weight_map\" is missing, empty or not an object", index.string())};
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_file_name(shard.get<std::string>())) {
      return {StatusCode::kCorrupt,
              fmt::format("{}: tensor \"{}\" is mapped to {}, expected the name of a file beside it", index.string(),
                          printable(tensor), printable(shard.dump()))};
    }
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) {
    if (Status status = add_file(folder / shard); !status) {
      return {status.code(), fmt::format("{} (named by {})", status.message(), index.string())};
    }
  }
  for (const auto& [tensor, shard] : map->items()) {
    const Location* location = find(tensor);
    const fs::path expected = folder / shard.get<std::string>();
    if (location == nullptr || location->file->source() != expected.string()) {
      return {StatusCode::kCorrupt, fmt::format("{}: tensor \"{}\" is not in {}, where the index says it is",
                                                index.string(), printable(tensor), expected.string())};
    }
  }
  return Status::ok();
}

Status HfWeights::add_all(const fs::path& folder) {
  std::vector<fs::path> paths;
  bool pickled = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.push_back(it->path());
    pickled = pickled || it->path().extension() == ".bin" || it->path().extension() == ".pt";
  }
  if (error) return {StatusCode::kIo, fmt::format("{}: cannot list it: {}", folder.string(), error.message())};
  if (paths.empty()) {
    return {StatusCode::kUnavailable,
            fmt::format("{}: no *.safetensors in it{}", folder.string(),
                        pickled ? "; convert its PyTorch file with save_pretrained(safe_serialization=True)" : "")};
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (Status status = add_file(path); !status) return status;
  }
  return Status::ok();
}

const HfWeights::Location* HfWeights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status HfWeights::check(const ModelConfig& config) const {
  std::vector<std::string> missing, unexpected;
  std::set<std::string> wanted;
  for (const ParameterSpec& spec : parameter_specs(config)) {
    wanted.insert(spec.name);
    const Location* location = find(spec.name);
    if (location == nullptr) {
      missing.push_back(spec.name);
      continue;
    }
    if (location->info->shape != spec.shape) {
      return {StatusCode::kCorrupt,
              fmt::format("{}: tensor \"{}\" has shape {}, config.json asks for {}", location->file->source(),
                          spec.name, shape_text(location->info->shape), shape_text(spec.shape))};
    }
    if (!is_trainable(location->info->dtype)) {
      return {StatusCode::kUnsupported,
              fmt::format("{}: tensor \"{}\" is {}: weights must be F32, F16 or BF16", location->file->source(),
                          spec.name, dtype_name(location->info->dtype))};
    }
  }
  for (const auto& [name, location] : tensors_) {
    if (!wanted.contains(name) && !is_ignorable(name, config)) unexpected.push_back(printable(name));
  }
  if (missing.empty() && unexpected.empty()) return Status::ok();
  std::string reason;
  if (!missing.empty()) reason = fmt::format("missing {}", name_list(missing));
  if (!unexpected.empty()) reason += fmt::format("{}unexpected {}", reason.empty() ? "" : "; ", name_list(unexpected));
  return {StatusCode::kCorrupt, fmt::format("{}: not the weights that config.json describes: {}", source_, reason)};
}

}  // namespace lockstep::train
