#include "train/model_config.h"

#include <fmt/core.h>

#include <cmath>

namespace lockstep::train {
namespace {

constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxParameters = std::int64_t{1} << 42;

struct Bound {
  const char* field;
  std::int64_t value;
  std::int64_t most;
};

Status refuse(const std::string& reason) {
  return {StatusCode::kInvalidArgument, "model config: " + reason};
}

}  // namespace

Status check_config(const ModelConfig& config) {
  const Bound bounds[] = {{"vocab_size", config.vocab_size, kMaxVocabulary},
                          {"hidden_size", config.hidden_size, kMaxWidth},
                          {"intermediate_size", config.intermediate_size, kMaxWidth},
                          {"num_hidden_layers", config.layers, kMaxLayers},
                          {"num_attention_heads", config.heads, kMaxWidth},
                          {"num_key_value_heads", config.kv_heads, kMaxWidth},
                          {"head_dim", config.head_dim, kMaxWidth},
                          {"max_position_embeddings", config.max_positions, kMaxVocabulary}};
  for (const Bound& bound : bounds) {
    if (bound.value < 1 || bound.value > bound.most) {
      return refuse(fmt::format("{} is {}, expected 1 to {}", bound.field, bound.value, bound.most));
    }
  }
  if (config.heads % config.kv_heads != 0) {
    return refuse(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", config.heads,
                              config.kv_heads));
  }
  if (config.head_dim % 2 != 0) return refuse(fmt::format("head_dim {} is odd, RoPE needs pairs", config.head_dim));
  if (config.heads * config.head_dim > kMaxWidth) {
    return refuse(
        fmt::format("num_attention_heads {} x head_dim {} exceeds {}", config.heads, config.head_dim, kMaxWidth));
  }
  if (!(config.rms_norm_eps >= 0) || config.rms_norm_eps > 1) {
    return refuse(fmt::format("rms_norm_eps is {}, expected 0 to 1", config.rms_norm_eps));
  }
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) {
    return refuse(fmt::format("rope_theta is {}, expected a number > 0", config.rope_theta));
  }
  // Every product below stays far under 2^63 because of the bounds above.
  if (const std::int64_t count = parameter_count(config); count > kMaxParameters) {
    return refuse(fmt::format("{} parameters, more than {}", count, kMaxParameters));
  }
  return Status::ok();
}

std::int64_t ParameterSpec::elements() const noexcept {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) product *= extent;
  return product;
}

std::vector<ParameterSpec> parameter_specs(const ModelConfig& config) {
  const std::int64_t q = config.heads * config.head_dim;
  const std::int64_t kv = config.kv_heads * config.head_dim;
  const std::int64_t hidden = config.hidden_size;
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", {config.vocab_size, hidden}});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, bool bias) {
      specs.push_back({prefix + name + ".weight", {out, in}});
      if (bias) specs.push_back({prefix + name + ".bias", {out}});
    };
    linear("self_attn.q_proj", q, hidden, config.qkv_bias);
    linear("self_attn.k_proj", kv, hidden, config.qkv_bias);
    linear("self_attn.v_proj", kv, hidden, config.qkv_bias);
    linear("self_attn.o_proj", hidden, q, config.o_bias);
    linear("mlp.gate_proj", config.intermediate_size, hidden, false);
    linear("mlp.up_proj", config.intermediate_size, hidden, false);
    linear("mlp.down_proj", hidden, config.intermediate_size, false);
    specs.push_back({prefix + "input_layernorm.weight", {hidden}});
    specs.push_back({prefix + "post_attention_layernorm.weight", {hidden}});
  }
  specs.push_back({"model.norm.weight", {hidden}});
  if (!config.tied_embeddings) specs.push_back({"lm_head.weight", {config.vocab_size, hidden}});
  return specs;
}

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t q = config.heads * config.head_dim;
  const std::int64_t kv = config.kv_heads * config.head_dim;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t attention =
      2 * hidden * (q + kv) + (config.qkv_bias ? q + 2 * kv : 0) + (config.o_bias ? hidden : 0);
  const std::int64_t layer = attention + 3 * hidden * config.intermediate_size + 2 * hidden;
  return config.vocab_size * hidden * (config.tied_embeddings ? 1 : 2) + config.layers * layer + hidden;
}

}  // namespace lockstep::train
