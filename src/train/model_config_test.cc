#include "train/model_config.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using nlohmann::json;

json small_llama() {
  return json::parse(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 96,
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
    "hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": [2, 7]})");
}

ModelConfig accepted(const json& document) {
  auto config = parse_config(document.dump(), "config.json");
  EXPECT_TRUE(config) << config.error().message();
  return config ? *config : ModelConfig{};
}

// The message of the refusal, which must name file and field.
void expect_refused(const json& patch, const std::string& field, json document = small_llama()) {
  document.merge_patch(patch);
  auto config = parse_config(document.dump(), "m/config.json");
  ASSERT_FALSE(config) << patch;
  EXPECT_EQ(config.error().message().find("m/config.json: "), 0u) << config.error().message();
  EXPECT_NE(config.error().message().find(field), std::string::npos) << config.error().message();
}

TEST(ModelConfig, ReadsALlama) {
  const ModelConfig config = accepted(small_llama());
  EXPECT_EQ(config.vocab_size, 96);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8) << "derived from hidden_size / heads";
  EXPECT_DOUBLE_EQ(config.rope_theta, 5e5);
  EXPECT_DOUBLE_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.eos_token_id, 2);
  EXPECT_FALSE(config.pad_token_id);
}

// The model of the paper. Counted without allocating a byte of it.
TEST(ModelConfig, OpenPanguHasThePublishedNumberOfParameters) {
  const ModelConfig config = accepted(json::parse(R"({"model_type": "PanguEmbedded",
    "architectures": ["PanguEmbeddedForCausalLM"], "auto_map": {"AutoConfig": "x.y"}, "bias": true,
    "hidden_size": 1536, "num_hidden_layers": 26, "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 128,
    "intermediate_size": 6144, "vocab_size": 153376, "max_position_embeddings": 32768, "rope_theta": 4000000.0,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": true, "bos_token_id": 1, "pad_token_id": 0,
    "eos_token_id": 45892})"));
  EXPECT_EQ(parameter_count(config), 1'155'912'192);
  std::int64_t listed = 0;
  for (const ParameterSpec& spec : parameter_specs(config)) listed += spec.elements();
  EXPECT_EQ(listed, 1'155'912'192);
  EXPECT_TRUE(config.qkv_bias && config.o_bias && config.tied_embeddings);
  EXPECT_EQ(config.eos_token_id, 45892);
}

TEST(ModelConfig, PanguIsSavedAsTheLlamaThatTransformersKnows) {
  json document = small_llama();
  document.merge_patch({{"model_type", "PanguEmbedded"}, {"bias", true}, {"auto_map", {{"AutoConfig", "x.y"}}}});
  const json saved = json::parse(format_config(accepted(document)));
  EXPECT_EQ(saved["model_type"], "llama");
  EXPECT_EQ(saved["architectures"], json({"LlamaForCausalLM"}));
  EXPECT_EQ(saved["attention_bias"], true);
  EXPECT_FALSE(saved.contains("auto_map"));
  EXPECT_FALSE(saved.contains("bias"));
}

TEST(ModelConfig, ParameterListFollowsTheCountForEveryCombination) {
  for (const bool bias : {false, true}) {
    for (const bool tied : {false, true}) {
      json document = small_llama();
      document.merge_patch({{"attention_bias", bias}, {"tie_word_embeddings", tied}, {"head_dim", 16}});
      const ModelConfig config = accepted(document);
      std::int64_t listed = 0;
      for (const ParameterSpec& spec : parameter_specs(config)) listed += spec.elements();
      EXPECT_EQ(listed, parameter_count(config));
      EXPECT_EQ(parameter_specs(config).back().name, tied ? "model.norm.weight" : "lm_head.weight");
    }
  }
}

TEST(ModelConfig, QwenHasBiasOnQueryKeyAndValueOnly) {
  json document = small_llama();
  document.merge_patch({{"model_type", "qwen2"}, {"architectures", {"Qwen2ForCausalLM"}}, {"sliding_window", 16}});
  const ModelConfig config = accepted(document);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias);
  expect_refused({{"use_sliding_window", true}}, "sliding_window", document);
}

TEST(ModelConfig, MistralWindowMustCoverTheContext) {
  json document = small_llama();
  document.merge_patch({{"model_type", "mistral"}, {"architectures", {"MistralForCausalLM"}}});
  EXPECT_FALSE(accepted(document).qkv_bias) << "an absent window means 4096, which covers 64 positions";
  document["sliding_window"] = nullptr;
  accepted(document);
  document["sliding_window"] = 64;
  accepted(document);
  expect_refused({{"sliding_window", 63}}, "\"sliding_window\" is 63", document);
  document.erase("sliding_window");
  expect_refused({{"max_position_embeddings", 32768}}, "\"sliding_window\" is 4096", document);
}

TEST(ModelConfig, ReadsRopeInBothSpellings) {
  json document = small_llama();
  document["rope_scaling"] = nullptr;
  EXPECT_DOUBLE_EQ(accepted(document).rope_theta, 5e5);
  document["rope_scaling"] = {{"type", "default"}};
  EXPECT_DOUBLE_EQ(accepted(document).rope_theta, 5e5);
  document.erase("rope_scaling");
  document.erase("rope_theta");
  document["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1234.5}};
  EXPECT_DOUBLE_EQ(accepted(document).rope_theta, 1234.5);
}

TEST(ModelConfig, RefusesScaledRopeByName) {
  expect_refused({{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "\"llama3\"");
  expect_refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}},
                 "\"rope_scaling\" asks for RoPE type \"linear\"");
  expect_refused({{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}}}}, "\"rope_parameters\"");
  expect_refused({{"rope_parameters", {{"full_attention", {{"rope_theta", 1e4}}}}}}, "\"full_attention\"");
  expect_refused({{"rope_scaling", "linear"}}, "\"rope_scaling\"");
  expect_refused({{"partial_rotary_factor", 0.5}}, "partial_rotary_factor");
}

TEST(ModelConfig, RefusesOtherArchitecturesByName) {
  expect_refused({{"model_type", "gpt2"}}, "\"model_type\" is \"gpt2\"");
  expect_refused({{"model_type", nullptr}}, "\"model_type\" is \"\"");
  expect_refused({{"architectures", {"LlamaForSequenceClassification"}}}, "LlamaForSequenceClassification");
  expect_refused({{"hidden_act", "gelu"}}, "\"hidden_act\" is \"gelu\"");
  expect_refused({{"mlp_bias", true}}, "mlp_bias");
  expect_refused({{"quantization_config", {{"bits", 4}}}}, "quantization_config");
  expect_refused({{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types");
}

TEST(ModelConfig, RefusesAbsurdShapesByName) {
  for (const char* field :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    expect_refused({{field, 0}}, field);
    expect_refused({{field, -4}}, field);
    expect_refused({{field, 1e18}}, field);
    expect_refused({{field, 1LL << 60}}, field);
    expect_refused({{field, "32"}}, field);
    expect_refused({{field, nullptr}}, field);
  }
  expect_refused({{"num_key_value_heads", 3}}, "num_key_value_heads");
  expect_refused({{"head_dim", 7}}, "head_dim");
  expect_refused({{"hidden_size", 33}}, "\"hidden_size\" 33 is not a multiple");
  expect_refused({{"rms_norm_eps", -1.0}}, "rms_norm_eps");
  expect_refused({{"rope_theta", 0}}, "rope_theta");
  expect_refused({{"rope_theta", "big"}}, "rope_theta");
  expect_refused({{"tie_word_embeddings", 1}}, "tie_word_embeddings");
  expect_refused({{"vocab_size", 1 << 24}, {"hidden_size", 1 << 20}, {"num_hidden_layers", 4096}}, "parameters");
}

TEST(ModelConfig, BrokenJsonIsRefusedAndNamesTheFile) {
  for (const char* text : {"", "{", "[]", "{\"a\": 1} x", "{\"a\": 1, \"a\": 2}", "\xff\xfe"}) {
    auto config = parse_config(text, "m/config.json");
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code(), StatusCode::kCorrupt);
    EXPECT_EQ(config.error().message().find("m/config.json"), 0u);
  }
}

TEST(ModelConfig, SavedConfigReadsBackEqualAndKeepsForeignFields) {
  json document = small_llama();
  document["transformers_version"] = "4.46.0";
  document["torch_dtype"] = "bfloat16";
  document["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 777.0}};
  const ModelConfig config = accepted(document);
  const json saved = json::parse(format_config(config));
  EXPECT_EQ(saved["transformers_version"], "4.46.0");
  EXPECT_EQ(saved["torch_dtype"], "float32") << "weights are saved in fp32";
  EXPECT_EQ(saved["eos_token_id"], json({2, 7})) << "the list survives";
  const ModelConfig again = accepted(saved);
  EXPECT_EQ(again.head_dim, config.head_dim);
  EXPECT_EQ(again.rope_theta, 777.0);
  EXPECT_EQ(format_config(again), format_config(config));
}

TEST(ModelConfig, ConfigBuiltByHandIsSavedWhole) {
  ModelConfig config;
  config.vocab_size = 50;
  config.hidden_size = 16;
  config.intermediate_size = 20;
  config.layers = 1;
  config.heads = config.kv_heads = 2;
  config.head_dim = 8;
  config.pad_token_id = 0;
  ASSERT_TRUE(check_config(config));
  const ModelConfig again = accepted(json::parse(format_config(config)));
  EXPECT_EQ(parameter_count(again), parameter_count(config));
  EXPECT_EQ(again.pad_token_id, 0);
}

}  // namespace
}  // namespace lockstep::train
