// config.json to ModelConfig and back: which fields are read, which are refused, and what a saved file says.
#include <fmt/core.h>

#include <cmath>

#include "train/json_text.h"
#include "train/model_config.h"

namespace lockstep::train {
namespace {

using nlohmann::json;

// Reads fields one by one; the first bad one is kept as the status and later reads give defaults.
class Fields {
 public:
  Fields(const json& document, const std::string& source) : document_(document), source_(source) {}

  // A field that is absent or null counts as not there.
  const json* find(const char* field) const {
    const auto found = document_.find(field);
    return found == document_.end() || found->is_null() ? nullptr : &*found;
  }

  bool mentions(const char* field) const { return document_.contains(field); }

  std::int64_t integer(const char* field, std::optional<std::int64_t> fallback) {
    const json* value = find(field);
    if (value == nullptr) {
      if (!fallback) fail(fmt::format("\"{}\" is missing", field));
      return fallback.value_or(0);
    }
    const bool fits =
        value->is_number_unsigned() ? value->get<std::uint64_t>() <= INT64_MAX : value->is_number_integer();
    if (!fits) bad(field, *value, "a whole number");
    return fits ? value->get<std::int64_t>() : 0;
  }

  double number(const char* field, double fallback) {
    const json* value = find(field);
    if (value == nullptr) return fallback;
    if (!value->is_number()) bad(field, *value, "a number");
    return value->is_number() ? value->get<double>() : fallback;
  }

  bool flag(const char* field, bool fallback) {
    const json* value = find(field);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) bad(field, *value, "true or false");
    return value->is_boolean() ? value->get<bool>() : fallback;
  }

  std::string text(const char* field, const char* fallback) {
    const json* value = find(field);
    if (value == nullptr) return fallback;
    if (!value->is_string()) bad(field, *value, "text");
    return value->is_string() ? value->get<std::string>() : fallback;
  }

  // A token id, or the first of a list of them (Llama 3 lists its end tokens).
  std::optional<std::int64_t> token(const char* field) {
    const json* value = find(field);
    if (value != nullptr && value->is_array()) value = value->empty() ? nullptr : &value->front();
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer()) {
      bad(field, *value, "a token id");
      return std::nullopt;
    }
    return value->get<std::int64_t>();
  }

  void bad(const char* field, const json& value, const char* expected) {
    fail(fmt::format("\"{}\" is {}, expected {}", field, printable(value.dump()), expected));
  }
  void unsupported(const std::string& reason) { set(StatusCode::kUnsupported, reason); }
  void fail(const std::string& reason) { set(StatusCode::kInvalidArgument, reason); }
  const Status& status() const { return status_; }

 private:
  void set(StatusCode code, const std::string& reason) {
    if (status_) status_ = Status(code, fmt::format("{}: {}", source_, reason));
  }
  const json& document_;
  const std::string& source_;
  Status status_;
};

void check_rope_type(Fields& fields, const char* field, const json& parameters) {
  if (!parameters.is_object()) return fields.bad(field, parameters, "an object");
  for (const char* key : {"rope_type", "type"}) {
    const auto type = parameters.find(key);
    if (type == parameters.end() || type->is_null() || (type->is_string() && *type == "default")) continue;
    return fields.unsupported(fmt::format("\"{}\" asks for RoPE type {}: only \"default\" (unscaled) is supported",
                                          field, printable(type->dump())));
  }
  for (const auto& [key, value] : parameters.items()) {
    if (key == "rope_type" || key == "type" || key == "rope_theta" || value.is_null()) continue;
    if (key == "partial_rotary_factor" && value.is_number() && value.get<double>() == 1.0) continue;
    return fields.unsupported(
        fmt::format("\"{}\" holds \"{}\": only unscaled RoPE over the whole head is supported", field, printable(key)));
  }
}

// transformers 4 has rope_theta and rope_scaling, transformers 5 one rope_parameters with both.
void read_rope(Fields& fields, ModelConfig& config) {
  config.rope_theta = fields.number("rope_theta", 10000.0);
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const json* parameters = fields.find(field);
    if (parameters == nullptr) continue;
    check_rope_type(fields, field, *parameters);
    if (!fields.status()) return;
    if (const auto theta = parameters->find("rope_theta"); theta != parameters->end() && !theta->is_null()) {
      if (!theta->is_number()) return fields.bad("rope_theta", *theta, "a number");
      config.rope_theta = theta->get<double>();
    }
  }
  if (fields.number("partial_rotary_factor", 1.0) != 1.0) {
    fields.unsupported("\"partial_rotary_factor\" is not 1: only RoPE over the whole head is supported");
  }
}

void read_biases(Fields& fields, ModelConfig& config) {
  if (config.model_type == "qwen2") {
    config.qkv_bias = true;                     // fixed in that architecture: on q, k and v, not on o
  } else if (config.model_type != "mistral") {  // mistral has none and ignores the field
    const char* field = config.model_type == "PanguEmbedded" ? "bias" : "attention_bias";
    config.qkv_bias = config.o_bias = fields.flag(field, false);
    if (fields.flag("mlp_bias", false)) fields.unsupported("\"mlp_bias\" is true: biases in the MLP are not supported");
  }
}

// A window that is shorter than the context changes the attention; one that is not never matters.
void check_attention_window(Fields& fields, const ModelConfig& config) {
  constexpr std::int64_t kMistralDefault = 4096;  // what transformers assumes where the field is absent; null is none
  const bool mistral = config.model_type == "mistral";
  const bool windowed = mistral || (config.model_type == "qwen2" && fields.flag("use_sliding_window", false));
  const std::int64_t absent = mistral && !fields.mentions("sliding_window") ? kMistralDefault : INT64_MAX;
  const std::int64_t window = windowed ? fields.integer("sliding_window", absent) : INT64_MAX;
  if (window < config.max_positions) {
    fields.unsupported(
        fmt::format("\"sliding_window\" is {}, shorter than \"max_position_embeddings\" {}: sliding-window "
                    "attention is not supported. If your sequences fit the window, lower "
                    "max_position_embeddings to it",
                    window, config.max_positions));
  }
  const json* types = fields.find("layer_types");
  if (types == nullptr || !types->is_array()) return;
  for (const auto& type : *types) {
    if (type == "full_attention" || (windowed && type == "sliding_attention")) continue;
    return fields.unsupported(
        fmt::format("\"layer_types\" holds {}: only full attention is supported", printable(type.dump())));
  }
}

void refuse_other_architectures(Fields& fields, const ModelConfig& config) {
  constexpr const char* kKnown[] = {"llama", "PanguEmbedded", "mistral", "qwen2"};
  bool known = false;
  for (const char* type : kKnown) known = known || config.model_type == type;
  if (!known) {
    return fields.unsupported(
        fmt::format("\"model_type\" is \"{}\": supported are llama, PanguEmbedded, mistral and "
                    "qwen2",
                    printable(config.model_type)));
  }
  if (const json* names = fields.find("architectures"); names != nullptr && names->is_array() && !names->empty()) {
    bool causal = false;
    for (const auto& name : *names)
      causal = causal || (name.is_string() && name.get<std::string>().ends_with("ForCausalLM"));
    if (!causal)
      fields.unsupported(
          fmt::format("\"architectures\" is {}: only causal language models (...ForCausalLM) are supported",
                      printable(names->dump())));
  }
  if (const std::string act = fields.text("hidden_act", "silu"); act != "silu" && act != "swish") {
    fields.unsupported(fmt::format("\"hidden_act\" is \"{}\": only silu is supported", printable(act)));
  }
  if (fields.find("quantization_config") != nullptr) {
    fields.unsupported(
        "\"quantization_config\" is set: quantised weights cannot be fine-tuned in full; use the original model");
  }
}

}  // namespace

Result<ModelConfig> parse_config(const std::string& text, const std::string& source) {
  auto document = parse_json_object(text, source);
  if (!document) return document.error();
  Fields fields(*document, source);
  ModelConfig config;
  config.model_type = fields.text("model_type", "");
  refuse_other_architectures(fields, config);
  if (!fields.status()) return fields.status();
  config.vocab_size = fields.integer("vocab_size", {});
  config.hidden_size = fields.integer("hidden_size", {});
  config.intermediate_size = fields.integer("intermediate_size", {});
  config.layers = fields.integer("num_hidden_layers", {});
  config.heads = fields.integer("num_attention_heads", {});
  config.kv_heads = fields.integer("num_key_value_heads", config.heads);
  config.max_positions = fields.integer("max_position_embeddings", 2048);
  if (fields.find("head_dim") == nullptr && config.heads > 0 && config.hidden_size % config.heads != 0) {
    fields.fail(
        fmt::format("\"hidden_size\" {} is not a multiple of \"num_attention_heads\" {} and \"head_dim\" is not given",
                    config.hidden_size, config.heads));
  }
  config.head_dim = fields.integer("head_dim", config.heads > 0 ? config.hidden_size / config.heads : 0);
  config.rms_norm_eps = fields.number("rms_norm_eps", 1e-6);
  config.initializer_range = fields.number("initializer_range", 0.02);
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  config.bos_token_id = fields.token("bos_token_id");
  config.eos_token_id = fields.token("eos_token_id");
  config.pad_token_id = fields.token("pad_token_id");
  read_rope(fields, config);
  read_biases(fields, config);
  check_attention_window(fields, config);
  if (!fields.status()) return fields.status();
  if (Status status = check_config(config); !status) {
    return Status(status.code(), fmt::format("{}: {}", source, status.message()));
  }
  config.original = std::move(*document);
  return config;
}

std::string format_config(const ModelConfig& config) {
  json out = config.original;
  const bool pangu = config.model_type == "PanguEmbedded";
  const std::string type = pangu ? "llama" : config.model_type;
  if (pangu) {
    for (const char* field : {"auto_map", "bias"}) out.erase(field);
  }
  out["model_type"] = type;
  out["architectures"] = {type == "mistral" ? "MistralForCausalLM"
                          : type == "qwen2" ? "Qwen2ForCausalLM"
                                            : "LlamaForCausalLM"};
  out["vocab_size"] = config.vocab_size;
  out["hidden_size"] = config.hidden_size;
  out["intermediate_size"] = config.intermediate_size;
  out["num_hidden_layers"] = config.layers;
  out["num_attention_heads"] = config.heads;
  out["num_key_value_heads"] = config.kv_heads;
  out["max_position_embeddings"] = config.max_positions;
  out["rms_norm_eps"] = config.rms_norm_eps;
  out["initializer_range"] = config.initializer_range;
  out["tie_word_embeddings"] = config.tied_embeddings;
  out["hidden_act"] = "silu";
  out["head_dim"] = config.head_dim;
  out["rope_theta"] = config.rope_theta;  // transformers 4 reads it here, 5 moves it into rope_parameters itself
  if (const auto rope = out.find("rope_parameters"); rope != out.end() && rope->is_object()) {
    (*rope)["rope_theta"] = config.rope_theta;
  }
  if (type == "llama") {
    out["attention_bias"] = config.qkv_bias;
    out["mlp_bias"] = false;
  }
  if (type == "mistral" && !out.contains("sliding_window")) out["sliding_window"] = nullptr;
  out["torch_dtype"] = "float32";
  if (out.contains("dtype")) out["dtype"] = "float32";
  const auto token = [&](const char* field, const std::optional<std::int64_t>& id) {
    if (id && !out.contains(field)) out[field] = *id;
  };
  token("bos_token_id", config.bos_token_id);
  token("eos_token_id", config.eos_token_id);
  token("pad_token_id", config.pad_token_id);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::train
