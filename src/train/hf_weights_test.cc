#include "train/hf_weights.h"

#include <gtest/gtest.h>

#include "train/scratch_folder.h"

namespace lockstep::train {
namespace {

ModelConfig tiny(bool tied) {
  ModelConfig config;
  config.vocab_size = 6;
  config.hidden_size = 4;
  config.intermediate_size = 4;
  config.layers = 1;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 2;
  config.tied_embeddings = tied;
  return config;
}

struct Weights {
  std::vector<std::byte> zeros = std::vector<std::byte>(1024);
  std::vector<TensorToWrite> tensors;

  explicit Weights(const ModelConfig& config) {
    for (const ParameterSpec& spec : parameter_specs(config)) add(spec.name, spec.shape);
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape, TensorDtype dtype = TensorDtype::kF32) {
    std::size_t bytes = dtype_bytes(dtype);
    for (auto extent : shape) bytes *= static_cast<std::size_t>(extent);
    tensors.push_back({name, dtype, shape, std::span(zeros).first(bytes)});
  }
};

Status opened_and_checked(const ScratchFolder& folder, const ModelConfig& config) {
  auto weights = HfWeights::open(folder.path());
  if (!weights) return weights.error();
  return weights->check(config);
}

void expect_refused(const ScratchFolder& folder, const ModelConfig& config, const std::string& reason) {
  const Status status = opened_and_checked(folder, config);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
}

TEST(HfWeights, OneFileWithAllTensorsIsAccepted) {
  ScratchFolder folder;
  const Weights weights(tiny(false));
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", weights.tensors, {}));
  const Status status = opened_and_checked(folder, tiny(false));
  EXPECT_TRUE(status) << status.message();
}

TEST(HfWeights, MissingUnexpectedAndMisshapenTensorsAreNamed) {
  ScratchFolder folder;
  Weights weights(tiny(false));
  weights.tensors.pop_back();
  weights.add("adapter.weight", {2});
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", weights.tensors, {}));
  expect_refused(folder, tiny(false), "missing lm_head.weight; unexpected adapter.weight");

  Weights wrong(tiny(false));
  wrong.tensors.erase(wrong.tensors.begin());
  wrong.add("model.embed_tokens.weight", {4, 6});
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", wrong.tensors, {}));
  expect_refused(folder, tiny(false), "\"model.embed_tokens.weight\" has shape [4, 6], config.json asks for [6, 4]");

  Weights doubles(tiny(false));
  doubles.tensors.pop_back();
  doubles.add("lm_head.weight", {6, 4}, TensorDtype::kF64);
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", doubles.tensors, {}));
  expect_refused(folder, tiny(false), "\"lm_head.weight\" is F64");
}

TEST(HfWeights, LongListsOfMissingTensorsAreCut) {
  ScratchFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", {}, {}));
  expect_refused(folder, tiny(true), "and 6 more");
}

TEST(HfWeights, RopeFrequenciesAndTiedOutputLayerMayBePresent) {
  ScratchFolder folder;
  Weights weights(tiny(true));
  weights.add("model.layers.0.self_attn.rotary_emb.inv_freq", {1});
  weights.add("lm_head.weight", {6, 4});
  ASSERT_TRUE(write_safetensors(folder / "model.safetensors", weights.tensors, {}));
  const Status status = opened_and_checked(folder, tiny(true));
  EXPECT_TRUE(status) << status.message();
}

class Sharded : public testing::Test {
 protected:
  Sharded() : all_(tiny(false)) {
    const auto half = all_.tensors.begin() + 4;
    first_.assign(all_.tensors.begin(), half);
    second_.assign(half, all_.tensors.end());
    for (const auto& tensor : first_) map_[tensor.name] = "model-1-of-2.safetensors";
    for (const auto& tensor : second_) map_[tensor.name] = "model-2-of-2.safetensors";
  }
  void write() {
    ASSERT_TRUE(write_safetensors(folder_ / "model-1-of-2.safetensors", first_, {}));
    ASSERT_TRUE(write_safetensors(folder_ / "model-2-of-2.safetensors", second_, {}));
    folder_.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map_}}.dump());
  }
  ScratchFolder folder_;
  Weights all_;
  std::vector<TensorToWrite> first_, second_;
  nlohmann::json map_ = nlohmann::json::object();
};

TEST_F(Sharded, ShardsOfAnIndexMakeOneModel) {
  write();
  const Status status = opened_and_checked(folder_, tiny(false));
  EXPECT_TRUE(status) << status.message();
}

TEST_F(Sharded, ShardsWithoutAnIndexMakeOneModelToo) {
  write();
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  const Status status = opened_and_checked(folder_, tiny(false));
  EXPECT_TRUE(status) << status.message();
}

TEST_F(Sharded, MissingShardIsNamed) {
  write();
  std::filesystem::remove(folder_ / "model-2-of-2.safetensors");
  expect_refused(folder_, tiny(false), "model-2-of-2.safetensors");
}

TEST_F(Sharded, TensorThatIsNotInItsShardIsNamed) {
  map_["lm_head.weight"] = "model-1-of-2.safetensors";
  write();
  expect_refused(folder_, tiny(false), "\"lm_head.weight\" is not in");
  map_["lm_head.weight"] = "model-2-of-2.safetensors";
  map_["nowhere"] = "model-2-of-2.safetensors";
  write();
  expect_refused(folder_, tiny(false), "\"nowhere\" is not in");
}

TEST_F(Sharded, TensorInTwoShardsIsNamedWithBoth) {
  second_.push_back(first_.front());
  write();
  expect_refused(folder_, tiny(false), "\"model.embed_tokens.weight\" is in two files");
}

TEST_F(Sharded, IndexThatPointsOutOfTheFolderIsRefused) {
  for (const char* path : {"../model.safetensors", "/etc/passwd", "", "..", "a/b"}) {
    map_["lm_head.weight"] = path;
    write();
    expect_refused(folder_, tiny(false), "expected the name of a file beside it");
  }
}

TEST_F(Sharded, BrokenIndexIsRefused) {
  write();
  for (const char* text : {"", "{}", "{\"weight_map\": []}", "{\"weight_map\": {}}", "{\"weight_map\": {\"a\": 1}}"}) {
    folder_.write("model.safetensors.index.json", text);
    expect_refused(folder_, tiny(false), "model.safetensors.index.json");
  }
}

TEST(HfWeights, FolderWithoutSafetensorsSaysWhatToDo) {
  ScratchFolder folder;
  expect_refused(folder, tiny(false), "no *.safetensors");
  folder.write("pytorch_model.bin", "x");
  expect_refused(folder, tiny(false), "safe_serialization=True");
  EXPECT_FALSE(HfWeights::open(folder / "none"));
  EXPECT_EQ(load_config(folder.path()).error().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::train
