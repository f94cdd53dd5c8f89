#include "train/adamw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "train/scratch_folder.h"

namespace lockstep::train {
namespace {

std::vector<Parameter> some_parameters(std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<Parameter> out;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"matrix", {37, 19}}, {"bias", {1900}}, {"large", {300, 250}}}) {
    out.push_back({name, at::randn(shape, generator, at::TensorOptions(at::kFloat)).set_requires_grad(true)});
  }
  return out;
}

std::vector<at::Tensor> some_gradients(const std::vector<Parameter>& parameters, at::Generator& generator) {
  std::vector<at::Tensor> out;
  for (const Parameter& parameter : parameters) {
    out.push_back(at::randn(parameter.tensor.sizes(), generator, at::TensorOptions(at::kFloat)));
  }
  return out;
}

// torch's own optimizer, driven beside ours in a dtype of choice.
class TorchAdamW {
 public:
  TorchAdamW(const std::vector<Parameter>& parameters, at::ScalarType dtype, double weight_decay)
      : tensors_(copies(parameters, dtype)),
        optimizer_(tensors_, torch::optim::AdamWOptions().weight_decay(weight_decay)) {}

  void step(const std::vector<at::Tensor>& gradients, double rate) {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      tensors_[i].mutable_grad() = gradients[i].to(tensors_[i].dtype(), false, true);
    static_cast<torch::optim::AdamWOptions&>(optimizer_.param_groups()[0].options()).lr(rate);
    optimizer_.step();
  }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  static std::vector<at::Tensor> copies(const std::vector<Parameter>& parameters, at::ScalarType dtype) {
    std::vector<at::Tensor> out;
    for (const Parameter& parameter : parameters)
      out.push_back(parameter.tensor.detach().to(dtype, false, true).set_requires_grad(true));
    return out;
  }
  std::vector<at::Tensor> tensors_;
  torch::optim::AdamW optimizer_;
};

// Both fp32 versions round, in different orders (fused multiply-adds): each is judged by torch's in fp64, and ours may
// not be farther from it than torch's own.
TEST(AdamW, FollowsTorchsUpToRounding) {
  auto ours = some_parameters(1);
  AdamWOptions options;
  options.weight_decay = 0.1;
  options.decay_scope = DecayScope::kAll;
  auto optimizer = AdamW::make(ours, options).value();
  TorchAdamW single(ours, at::kFloat, 0.1), exact(ours, at::kDouble, 0.1);
  auto generator = at::detail::createCPUGenerator(2);
  for (int step = 0; step < 50; ++step) {
    const double rate = 1e-2 * (50 - step) / 50;
    const auto gradients = some_gradients(ours, generator);
    single.step(gradients, rate);
    exact.step(gradients, rate);
    ASSERT_TRUE(optimizer.step(gradients, rate));
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto error = [&](const at::Tensor& got) {
      return (got.to(at::kDouble) - exact.tensors()[i]).norm().item<double>();
    };
    EXPECT_LT(error(ours[i].tensor), 1.2 * error(single.tensors()[i])) << ours[i].name;
    EXPECT_GT(error(some_parameters(1)[i].tensor), 1e4 * error(ours[i].tensor)) << "it did move";
  }
}

TEST(AdamW, FirstStepIsTheFormula) {
  Parameter parameter{"p", at::full({1, 1}, 2.0f).set_requires_grad(true)};
  auto optimizer = AdamW::make({parameter}, {}).value();
  ASSERT_TRUE(optimizer.step({at::full({1, 1}, 4.0f)}, 0.1, 0.5));
  // Bias correction makes the first update lr * sign(g); decay first multiplies by 1 - lr * 0.01.
  EXPECT_NEAR(parameter.tensor.item<double>(), 2.0 * (1 - 0.1 * 0.01) - 0.1, 1e-6);
}

TEST(AdamW, MatricesScopeLeavesVectorsUndecayed) {
  Parameter matrix{"m", at::full({1, 1}, 2.0f).set_requires_grad(true)},
      vector{"v", at::full({1}, 2.0f).set_requires_grad(true)};
  auto optimizer = AdamW::make({matrix, vector}, {}).value();
  ASSERT_TRUE(optimizer.step({at::zeros({1, 1}), at::zeros({1})}, 0.5));
  EXPECT_NEAR(matrix.tensor.item<double>(), 2.0 * (1 - 0.5 * 0.01), 1e-6);
  EXPECT_EQ(vector.tensor.item<double>(), 2.0);
}

TEST(AdamW, ResumedRunHasTheBitsOfAnUninterruptedOne) {
  ScratchFolder folder;
  auto straight = some_parameters(1), resumed = some_parameters(1);
  auto a = AdamW::make(straight, {}).value();
  auto b = AdamW::make(resumed, {}).value();
  auto generator = at::detail::createCPUGenerator(2);
  std::vector<std::vector<at::Tensor>> gradients;
  for (int i = 0; i < 6; ++i) gradients.push_back(some_gradients(straight, generator));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(a.step(gradients[static_cast<std::size_t>(i)], 1e-3));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(b.step(gradients[static_cast<std::size_t>(i)], 1e-3));
  ASSERT_TRUE(b.save(folder / "adamw.safetensors"));
  auto c = AdamW::make(resumed, {}).value();
  ASSERT_TRUE(c.load(folder / "adamw.safetensors"));
  EXPECT_EQ(c.steps(), 3);
  for (int i = 3; i < 6; ++i) ASSERT_TRUE(c.step(gradients[static_cast<std::size_t>(i)], 1e-3));
  for (std::size_t i = 0; i < straight.size(); ++i) EXPECT_TRUE(straight[i].tensor.equal(resumed[i].tensor));
}

TEST(AdamW, StateOfAnotherModelIsRefusedAndChangesNothing) {
  ScratchFolder folder;
  auto parameters = some_parameters(1);
  auto optimizer = AdamW::make(parameters, {}).value();
  auto generator = at::detail::createCPUGenerator(2);
  ASSERT_TRUE(optimizer.step(some_gradients(parameters, generator), 1e-3));
  const at::Tensor before = optimizer.state()[0].second.clone();
  Parameter other{"other", at::zeros({2})};
  ASSERT_TRUE(AdamW::make({other}, {})->save(folder / "other"));
  EXPECT_FALSE(optimizer.load(folder / "other"));
  EXPECT_FALSE(optimizer.load(folder / "none"));
  folder.write("broken", "junk");
  EXPECT_FALSE(optimizer.load(folder / "broken"));
  EXPECT_TRUE(before.equal(optimizer.state()[0].second));
  EXPECT_EQ(optimizer.steps(), 1);
}

TEST(AdamW, RefusesWhatItCannotUpdate) {
  const auto parameters = some_parameters(1);
  EXPECT_FALSE(AdamW::make(parameters, {.beta1 = 1.0}));
  EXPECT_FALSE(AdamW::make(parameters, {.eps = -1}));
  EXPECT_FALSE(AdamW::make({{"d", at::zeros({2}, at::kDouble)}}, {}));
  auto optimizer = AdamW::make(parameters, {}).value();
  EXPECT_FALSE(optimizer.step({}, 1e-3));
  EXPECT_FALSE(optimizer.step({at::zeros({1}), at::zeros({1}), at::zeros({1})}, 1e-3));
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST(Clipping, NormIsTheGlobalOneAndTheFactorTorchs) {
  const std::vector<at::Tensor> gradients = {at::full({100, 1000}, 3.0f), at::full({7}, 4.0f)};
  const double expected = std::sqrt(9.0 * 100'000 + 16.0 * 7);
  EXPECT_NEAR(gradient_norm(gradients), expected, 1e-9 * expected);
  EXPECT_NEAR(clip_factor(expected, 1.0), 1.0 / (expected + 1e-6), 1e-12);
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(100.0, 0.0), 1.0) << "0 turns clipping off";
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_TRUE(std::isnan(clip_factor(NAN, 1.0))) << "a broken gradient stays visible";
}

}  // namespace
}  // namespace lockstep::train
