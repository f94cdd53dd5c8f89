#include "train/material.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "train/embedded_data.h"
#include "train/scratch_folder.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

// One cache for the whole program: the embedded model takes seconds.
const std::filesystem::path& shared_cache() {
  static const ScratchFolder folder;
  return folder.path();
}

MaterialOptions embedded() {
  MaterialOptions options;
  options.cache_dir = shared_cache();
  options.max_rows = 200;
  return options;
}

std::string error_of(const MaterialOptions& options) {
  const auto material = load_material(options);
  return material ? "loaded" : material.error().message();
}

TEST(EmbeddedModel, IsMadeOnceAndKnowsSomething) {
  ASSERT_TRUE(ensure_embedded_model(shared_cache()).has_value());
  const EmbeddedModel again = ensure_embedded_model(shared_cache()).value();
  EXPECT_FALSE(again.made);
  MaterialOptions options = embedded();
  options.eval_rows = 50;
  const Material material = load_material(options).value();
  EXPECT_GT(material.parameters, 100'000);
  EXPECT_LT(material.parameters, 1'000'000);
  TrainOptions train_options;
  train_options.max_steps = 1;
  train_options.batch = {2, 1, PartialStep::kDrop};
  train_options.learning_rate = 0;
  train_options.watch.enabled = false;
  auto engine = make_virtual_engine(2).value();
  const TrainResult result = train(material, train_options, *engine).value();
  EXPECT_LT(*result.eval_loss_start, 0.7 * std::log(double{kEmbeddedVocab})) << "better than guessing";
}

TEST(EmbeddedModel, ADamagedOneIsMadeAnewWithTheSameBytes) {
  const ScratchFolder cache;
  std::filesystem::copy(ensure_embedded_model(shared_cache())->folder.parent_path(), cache.path(),
                        std::filesystem::copy_options::recursive);
  const EmbeddedModel model = ensure_embedded_model(cache.path()).value();
  ASSERT_FALSE(model.made);
  const std::string name = model.folder.filename().string() + "/model.safetensors";
  const std::string before = cache.read(name);
  cache.write(name, before.substr(0, before.size() / 2));
  EXPECT_TRUE(ensure_embedded_model(cache.path())->made);
  EXPECT_EQ(cache.read(name), before);
}

TEST(Material, HeldOutRowsAreNotTrainedOn) {
  MaterialOptions options = embedded();
  const Material all = load_material(options).value();
  options.eval_rows = 20;
  const Material split = load_material(options).value();
  EXPECT_EQ(split.eval.examples.size(), 20U);
  EXPECT_EQ(split.data.examples.size() + 20, all.data.examples.size());
  EXPECT_NE(split.data_hash, all.data_hash) << "another training set";
  std::multiset<std::uint64_t> together, whole;
  for (const Example& example : all.data.examples) whole.insert(example.fingerprint);
  for (const auto* part : {&split.data, &split.eval}) {
    for (const Example& example : part->examples) together.insert(example.fingerprint);
  }
  EXPECT_EQ(together, whole);
  options.eval_rows = 200;
  EXPECT_NE(error_of(options).find("none would be left"), std::string::npos);
}

TEST(Material, BadInputIsNamed) {
  const ScratchFolder folder;
  MaterialOptions options = embedded();
  options.data = folder / "nowhere.json";
  EXPECT_NE(error_of(options).find("nowhere.json"), std::string::npos);
  folder.write("broken.json", "[{\"instruction\": ");
  options.data = folder / "broken.json";
  EXPECT_NE(error_of(options).find("broken.json"), std::string::npos);
  folder.write("empty.json", "[]");
  options.data = folder / "empty.json";
  EXPECT_NE(error_of(options).find("empty.json"), std::string::npos);
  folder.write("rows.json", R"([{"instruction": "say", "input": ""}])");
  options.data = folder / "rows.json";
  EXPECT_NE(error_of(options).find("output"), std::string::npos);
  options = embedded();
  options.model = folder / "no_model";
  EXPECT_NE(error_of(options).find("no_model"), std::string::npos);
}

TEST(Material, ATokenizerThatDoesNotFitTheModelIsRefused) {
  const ScratchFolder folder;
  const auto source = ensure_embedded_model(shared_cache())->folder;
  std::filesystem::copy(source, folder / "model");
  const std::string tokenizer = folder.read("model/tokenizer.model");
  folder.write("model/tokenizer.model", tokenizer.substr(0, tokenizer.size() / 2));
  MaterialOptions options = embedded();
  options.model = folder / "model";
  EXPECT_NE(error_of(options).find("tokenizer.model"), std::string::npos);
  std::filesystem::remove(folder / "model/tokenizer.model");
  EXPECT_NE(error_of(options).find("tokenizer.model"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
