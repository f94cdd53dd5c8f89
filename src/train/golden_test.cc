// Agreement with Hugging Face transformers: models, logits, loss and gradients that tools/make_golden.py made there.
#include <gtest/gtest.h>

#include <filesystem>

#include "train/hf_folder.h"
#include "train/scratch_folder.h"
#include "train/tensor_file.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 1e-5;  // relative to the largest expected value

double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  return ((got - expected).abs().max() / expected.abs().max().clamp_min(1e-12)).item<double>();
}

class Golden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = fs::path(LOCKSTEP_TESTDATA) / (std::string("golden_") + GetParam());
    ASSERT_TRUE(fs::exists(folder_)) << folder_ << " is missing: make it with tools/make_golden.py";
    auto file = SafetensorsReader::open(folder_ / "expected.safetensors");
    ASSERT_TRUE(file) << file.error().message();
    for (const TensorInfo& info : file->tensors()) expected_[info.name] = read_tensor(*file, info).value();
    auto model = load_folder(folder_);
    ASSERT_TRUE(model) << model.error().message();
    model_.emplace(std::move(*model));
  }

  at::Tensor real_tokens(const at::Tensor& logits) const { return logits.index({expected_.at("attention_mask") == 1}); }

  fs::path folder_;
  std::map<std::string, at::Tensor> expected_;
  std::optional<CausalLm> model_;
};

TEST_P(Golden, LogitsAgree) {
  auto logits = model_->logits(expected_["input_ids"]);
  ASSERT_TRUE(logits) << logits.error().message();
  EXPECT_LT(relative_error(real_tokens(*logits), real_tokens(expected_["logits"])), kTolerance);
}

TEST_P(Golden, LossAndEveryGradientAgree) {
  auto loss = model_->loss(expected_["input_ids"], expected_["labels"]);
  ASSERT_TRUE(loss) << loss.error().message();
  EXPECT_EQ(loss->tokens, 6 + 4);
  EXPECT_NEAR(loss->loss.item<double>(), expected_["loss"].item<double>(),
              kTolerance * expected_["loss"].item<double>());
  ASSERT_TRUE(CausalLm::backward(*loss));
  std::size_t compared = 0;
  for (const Parameter& parameter : model_->parameters()) {
    ASSERT_TRUE(expected_.contains("grad." + parameter.name)) << parameter.name;
    EXPECT_LT(relative_error(parameter.tensor.grad(), expected_["grad." + parameter.name]), kTolerance)
        << parameter.name;
    ++compared;
  }
  EXPECT_EQ(compared + 5, expected_.size()) << "every gradient of transformers has its parameter here";
}

TEST_P(Golden, PadsDoNotTouchRealTokens) {
  at::Tensor ids = expected_["input_ids"].clone();
  const at::Tensor before = model_->logits(ids).value();
  ids.index_put_({expected_["attention_mask"] == 0}, at::full({}, 7, at::kLong));
  const at::Tensor after = model_->logits(ids).value();
  EXPECT_TRUE(real_tokens(before).equal(real_tokens(after)));
  EXPECT_FALSE(before.equal(after)) << "the changed pads themselves do change";
}

// With LOCKSTEP_SAVED_DIR set the saved folders stay, for tools/make_golden.py --verify to load in transformers.
TEST_P(Golden, SavedFolderHoldsTheSameModel) {
  ScratchFolder scratch;
  const char* kept = std::getenv("LOCKSTEP_SAVED_DIR");
  const fs::path out = (kept != nullptr ? fs::path(kept) : scratch.path()) / GetParam();
  ASSERT_TRUE(save_folder(*model_, out));
  auto again = load_folder(out);
  ASSERT_TRUE(again) << again.error().message();
  const at::Tensor logits = model_->logits(expected_["input_ids"]).value();
  EXPECT_TRUE(logits.equal(again->logits(expected_["input_ids"]).value()));
  if (kept == nullptr) return;
  const at::Tensor loss = model_->loss(expected_["input_ids"], expected_["labels"])->loss.detach().reshape({1});
  ASSERT_TRUE(write_tensors(out / "expected.safetensors",
                            {{"input_ids", expected_["input_ids"]},
                             {"attention_mask", expected_["attention_mask"]},
                             {"labels", expected_["labels"]},
                             {"logits", logits},
                             {"loss", loss}},
                            {{"format", "pt"}}));
}

TEST_P(Golden, Bf16StaysNearFp32) {
  ForwardOptions options;
  options.precision = Precision::kBf16;
  auto loss = model_->loss(expected_["input_ids"], expected_["labels"], options);
  ASSERT_TRUE(loss) << loss.error().message();
  const double expected = expected_["loss"].item<double>();
  EXPECT_NEAR(loss->loss.item<double>(), expected, 0.03 * expected);
  EXPECT_NE(loss->loss.item<double>(), expected) << "bf16 was not used";
  ASSERT_TRUE(CausalLm::backward(*loss));
  for (const Parameter& parameter : model_->parameters()) {
    ASSERT_EQ(parameter.tensor.grad().scalar_type(), at::kFloat) << parameter.name;
    EXPECT_LT(relative_error(parameter.tensor.grad(), expected_["grad." + parameter.name]), 0.15) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, Golden,
                         testing::Values("llama_plain_untied", "llama_plain_tied", "llama_bias_untied",
                                         "llama_bias_tied", "mistral", "qwen2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep::train
