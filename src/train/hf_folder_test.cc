#include "train/hf_folder.h"

#include <gtest/gtest.h>

#include "train/hf_weights.h"
#include "train/scratch_folder.h"
#include "train/tensor_file.h"

namespace lockstep::train {
namespace {

ModelConfig tiny(bool tied) {
  ModelConfig config;
  config.vocab_size = 20;
  config.hidden_size = 8;
  config.intermediate_size = 6;
  config.layers = 1;
  config.heads = config.kv_heads = 2;
  config.head_dim = 4;
  config.tied_embeddings = tied;
  return config;
}

const at::Tensor kIds = at::arange(10, at::kLong).view({2, 5});

std::string refusal(const std::filesystem::path& folder) {
  auto model = load_folder(folder);
  EXPECT_FALSE(model);
  return model ? "" : model.error().message();
}

std::vector<NamedTensor> weights_of(const CausalLm& model) {
  std::vector<NamedTensor> out;
  for (const Parameter& parameter : model.parameters()) out.emplace_back(parameter.name, parameter.tensor);
  return out;
}

TEST(HfFolder, SaveThenLoadGivesTheSameLogits) {
  for (const bool tied : {false, true}) {
    ScratchFolder folder;
    const auto model = CausalLm::make(tiny(tied), 4).value();
    ASSERT_TRUE(save_folder(model, folder / "deep/er"));
    auto again = load_folder(folder / "deep/er");
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_TRUE(model.logits(kIds)->equal(*again->logits(kIds)));
  }
}

TEST(HfFolder, TiedEmbeddingIsSavedOnce) {
  ScratchFolder folder;
  ASSERT_TRUE(save_folder(CausalLm::make(tiny(true), 4).value(), folder.path()));
  auto file = SafetensorsReader::open(folder / "model.safetensors");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->find("lm_head.weight"), nullptr);
  EXPECT_NE(file->find("model.embed_tokens.weight"), nullptr);
  EXPECT_EQ(file->metadata().at("format"), "pt");
  std::uint64_t bytes = 0;
  for (const auto& info : file->tensors()) bytes += info.bytes();
  EXPECT_EQ(bytes, 4u * static_cast<std::uint64_t>(parameter_count(tiny(true))));
}

TEST(HfFolder, HalfPrecisionWeightsAreWidened) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    ScratchFolder folder;
    const auto model = CausalLm::make(tiny(true), 4).value();
    ASSERT_TRUE(save_folder(model, folder.path()));
    auto weights = weights_of(model);
    for (auto& [name, tensor] : weights) tensor = tensor.to(dtype);
    ASSERT_TRUE(write_tensors(folder / "model.safetensors", weights, {}));
    auto again = load_folder(folder.path());
    ASSERT_TRUE(again) << again.error().message();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(again->parameters()[i].tensor.scalar_type(), at::kFloat);
      EXPECT_TRUE(again->parameters()[i].tensor.equal(weights[i].second.to(at::kFloat)));
    }
  }
}

TEST(HfFolder, OutputLayerThatContradictsItsTieIsRefused) {
  ScratchFolder folder;
  const auto model = CausalLm::make(tiny(true), 4).value();
  ASSERT_TRUE(save_folder(model, folder.path()));
  auto weights = weights_of(model);
  weights.emplace_back("lm_head.weight", weights[0].second.clone());
  ASSERT_TRUE(write_tensors(folder / "model.safetensors", weights, {}));
  EXPECT_TRUE(load_folder(folder.path())) << "an equal copy is harmless";
  weights.back().second = weights[0].second + 1;
  ASSERT_TRUE(write_tensors(folder / "model.safetensors", weights, {}));
  EXPECT_NE(refusal(folder.path()).find("tie_word_embeddings"), std::string::npos);
}

TEST(HfFolder, DamageIsRefusedWithTheFileNamed) {
  ScratchFolder folder;
  EXPECT_NE(refusal(folder.path()).find("config.json"), std::string::npos);
  ASSERT_TRUE(save_folder(CausalLm::make(tiny(false), 4).value(), folder.path()));
  const std::string weights = folder.read("model.safetensors"), config = folder.read("config.json");
  folder.write("model.safetensors", weights.substr(0, weights.size() - 1));
  EXPECT_NE(refusal(folder.path()).find("model.safetensors"), std::string::npos);
  folder.write("model.safetensors", weights);
  folder.write("config.json", config.substr(0, config.size() / 2));
  EXPECT_NE(refusal(folder.path()).find("config.json"), std::string::npos);
}

TEST(HfFolder, ConfigThatLiesAboutItsSizeIsRefusedBeforeAllocating) {
  ScratchFolder folder;
  ASSERT_TRUE(save_folder(CausalLm::make(tiny(false), 4).value(), folder.path()));
  auto config = nlohmann::json::parse(folder.read("config.json"));
  config["vocab_size"] = 16'000'000;
  config["hidden_size"] = 100'000;  // 6 TB of embedding
  folder.write("config.json", config.dump());
  EXPECT_NE(refusal(folder.path()).find("\"model.embed_tokens.weight\" has shape [20, 8]"), std::string::npos);
}

TEST(HfFolder, FailedSaveLeavesTheOldFolderLoadable) {
  ScratchFolder folder;
  const auto model = CausalLm::make(tiny(false), 4).value();
  ASSERT_TRUE(save_folder(model, folder.path()));
  EXPECT_FALSE(save_folder(model, folder / "config.json"));  // a file stands where the folder should
  EXPECT_TRUE(load_folder(folder.path()));
  EXPECT_EQ(folder.files(), 2u) << "config.json and model.safetensors, no temporaries";
}

}  // namespace
}  // namespace lockstep::train
