// The shape of a Llama-family causal language model, from a Hugging Face config.json.
//
// Accepts model types llama, PanguEmbedded, mistral and qwen2 where they are this architecture (RMSNorm, rotate-half
// RoPE, grouped-query attention, SwiGLU); any field that asks for more is refused by name, because a model that is
// silently computed another way is worse than none. Needs no libtorch: sizes are known without allocating.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::train {

struct ModelConfig {
  std::string model_type = "llama";
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 2048;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  double initializer_range = 0.02;
  bool qkv_bias = false;
  bool o_bias = false;
  bool tied_embeddings = false;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;  // the first, where the file lists several
  std::optional<std::int64_t> pad_token_id;

  // The file this came from, kept so that fields that the model does not need survive a save. Empty when built by hand.
  nlohmann::json original = nlohmann::json::object();
};

struct ParameterSpec {
  std::string name;  // Hugging Face's
  std::vector<std::int64_t> shape;
  std::int64_t elements() const noexcept;
};

// Refuses shapes that are not a model: sizes of zero or beyond reason, heads that do not divide, an odd head_dim.
Status check_config(const ModelConfig& config);

// `source` names the file in messages.
Result<ModelConfig> parse_config(const std::string& text, const std::string& source);

// config.json that transformers loads without remote code: PanguEmbedded is written as the llama that it is.
std::string format_config(const ModelConfig& config);

// Every parameter, in the order of transformers' named_parameters(); a tied output layer is not listed again. The
// position in this list is the parameter's index everywhere in Lockstep.
std::vector<ParameterSpec> parameter_specs(const ModelConfig& config);

std::int64_t parameter_count(const ModelConfig& config);

}  // namespace lockstep::train
