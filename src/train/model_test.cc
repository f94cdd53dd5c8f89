#include "train/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

ModelConfig tiny(bool tied = false) {
  ModelConfig config;
  config.vocab_size = 20;
  config.hidden_size = 12;
  config.intermediate_size = 10;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 4;
  config.max_positions = 16;
  config.initializer_range = 0.3;
  config.qkv_bias = config.o_bias = true;
  config.tied_embeddings = tied;
  return config;
}

struct Batch {
  at::Tensor ids, labels;
};

Batch some_batch(std::int64_t rows = 2, std::int64_t positions = 7, std::uint64_t seed = 3) {
  Batch batch;
  batch.ids = at::randint(1, 20, {rows, positions}, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kLong));
  batch.labels = batch.ids.clone();
  batch.labels.narrow(1, 0, 3).fill_(kIgnoredLabel);
  return batch;
}

TEST(CausalLm, WeightsDependOnTheSeedAlone) {
  const auto a = CausalLm::make(tiny(), 5).value(), b = CausalLm::make(tiny(), 5).value(),
             c = CausalLm::make(tiny(), 6).value();
  for (std::size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_TRUE(a.parameters()[i].tensor.equal(b.parameters()[i].tensor)) << a.parameters()[i].name;
  }
  EXPECT_FALSE(a.parameters()[0].tensor.equal(c.parameters()[0].tensor));
}

TEST(CausalLm, ParametersStandInTheOrderOfTheirSpecs) {
  const auto model = CausalLm::make(tiny(true), 1).value();
  const auto specs = parameter_specs(tiny(true));
  ASSERT_EQ(model.parameters().size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(model.parameters()[i].name, specs[i].name);
    EXPECT_EQ(model.parameters()[i].tensor.sizes().vec(), specs[i].shape);
  }
}

// Central differences in fp64: every kind of parameter, a few of its entries.
TEST(CausalLm, GradientsAreTheSlopesOfTheLoss) {
  for (const bool tied : {false, true}) {
    auto model = CausalLm::make(tiny(tied), 2, at::kDouble).value();
    const Batch batch = some_batch();
    ASSERT_TRUE(model.accumulate(batch.ids, batch.labels, 1.0));
    const auto value = [&] { return model.loss(batch.ids, batch.labels)->loss.item<double>(); };
    for (const Parameter& parameter : model.parameters()) {
      const at::Tensor flat = parameter.tensor.detach().view(-1), grad = parameter.tensor.grad().reshape(-1);
      for (std::int64_t i = 0; i < flat.numel(); i += std::max<std::int64_t>(1, flat.numel() / 3)) {
        const double old = flat[i].item<double>(), h = 1e-5;
        flat[i].fill_(old + h);
        const double above = value();
        flat[i].fill_(old - h);
        const double below = value();
        flat[i].fill_(old);
        ASSERT_NEAR(grad[i].item<double>(), (above - below) / (2 * h), 1e-7) << parameter.name << " " << i;
      }
    }
  }
}

TEST(CausalLm, LossIsTheMeanOverLabelledTokensOfAllLogits) {
  auto model = CausalLm::make(tiny(), 2).value();
  const Batch batch = some_batch();
  const at::Tensor logits = model.logits(batch.ids).value();
  const auto loss = model.loss(batch.ids, batch.labels).value();
  EXPECT_EQ(loss.tokens, 2 * 4);
  const at::Tensor all =
      at::cross_entropy_loss(logits.narrow(1, 0, 6).reshape({-1, 20}), batch.labels.narrow(1, 1, 6).reshape(-1), {},
                             at::Reduction::Mean, kIgnoredLabel);
  EXPECT_NEAR(loss.loss.item<double>(), all.item<double>(), 1e-6);
}

TEST(CausalLm, MicroBatchesAddUp) {
  auto model = CausalLm::make(tiny(), 2, at::kDouble).value();
  const Batch batch = some_batch(4);
  ASSERT_TRUE(model.accumulate(batch.ids, batch.labels, 1.0));
  const auto whole = model.take_gradients();
  for (const std::int64_t row : {0, 2}) {
    ASSERT_TRUE(model.accumulate(batch.ids.narrow(0, row, 2), batch.labels.narrow(0, row, 2), 0.5));
  }
  const auto sum = model.take_gradients();
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::allclose(whole[i], sum[i], 1e-10, 1e-12));
}

TEST(CausalLm, TakenGradientsAreTheCallersAndTheModelBeginsAnew) {
  auto model = CausalLm::make(tiny(), 2).value();
  const Batch batch = some_batch();
  ASSERT_TRUE(model.accumulate(batch.ids, batch.labels, 1.0));
  const auto first = model.take_gradients();
  std::vector<at::Tensor> copies;
  for (const auto& gradient : first) {
    copies.push_back(gradient.clone());
    EXPECT_TRUE(gradient.is_contiguous());
  }
  EXPECT_FALSE(model.parameters()[0].tensor.grad().defined());
  ASSERT_TRUE(model.accumulate(batch.ids, batch.labels, 1.0));
  const auto second = model.take_gradients();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(first[i].equal(copies[i])) << "a later pass must not write into what was taken";
    EXPECT_TRUE(second[i].equal(first[i])) << "the same work gives the same bits";
  }
}

TEST(CausalLm, BatchWithoutLabelsGivesZeroLossAndZeroGradients) {
  auto model = CausalLm::make(tiny(), 2).value();
  const Batch batch = some_batch();
  const auto loss = model.accumulate(batch.ids, at::full_like(batch.labels, kIgnoredLabel), 1.0);
  ASSERT_TRUE(loss) << loss.error().message();
  EXPECT_EQ(loss->tokens, 0);
  EXPECT_EQ(loss->loss.item<double>(), 0.0);
  for (const auto& gradient : model.take_gradients()) EXPECT_EQ(gradient.abs().sum().item<double>(), 0.0);
}

TEST(CausalLm, ThreadsChangeNothingBeyondTheRoundingOfTheProducts) {
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> gradients;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    auto model = CausalLm::make(tiny(), 2).value();
    const Batch batch = some_batch(4, 16);
    ASSERT_TRUE(model.accumulate(batch.ids, batch.labels, 1.0));
    gradients.push_back(model.take_gradients());
  }
  at::set_num_threads(before);
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(at::allclose(gradients[0][i], gradients[1][i], 1e-5, 1e-7));
}

TEST(CausalLm, DropoutFollowsTheGeneratorItIsGiven) {
  auto model = CausalLm::make(tiny(), 2).value();
  const Batch batch = some_batch();
  const auto value = [&](std::uint64_t seed) {
    ForwardOptions options;
    options.attention_dropout = 0.5;
    options.generator = at::detail::createCPUGenerator(seed);
    return model.loss(batch.ids, batch.labels, options)->loss.item<double>();
  };
  EXPECT_EQ(value(1), value(1));
  EXPECT_NE(value(1), value(2));
  EXPECT_NE(value(1), model.loss(batch.ids, batch.labels)->loss.item<double>());
}

void expect_refused(const Status& status, const std::string& reason) {
  EXPECT_FALSE(status);
  EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
}

TEST(CausalLm, BadBatchesAreRefusedWithTheReason) {
  auto model = CausalLm::make(tiny(), 2).value();
  Batch batch = some_batch();
  const auto refusal = [&](const at::Tensor& ids, const at::Tensor& labels, const ForwardOptions& options = {}) {
    auto result = model.loss(ids, labels, options);
    return result ? Status::ok() : result.error();
  };
  expect_refused(refusal(at::zeros({2, 17}, at::kLong), at::zeros({2, 17}, at::kLong)),
                 "max_position_embeddings is 16");
  expect_refused(refusal(at::full({1, 3}, 20, at::kLong), at::zeros({1, 3}, at::kLong)), "the tokenizer does not fit");
  expect_refused(refusal(at::full({1, 3}, -1, at::kLong), at::zeros({1, 3}, at::kLong)), "token id -1");
  expect_refused(refusal(batch.ids, at::full_like(batch.labels, 20)), "label 20");
  expect_refused(refusal(batch.ids, at::full_like(batch.labels, -1)), "label -1");
  expect_refused(refusal(batch.ids, batch.labels.narrow(1, 0, 3)), "labels must be");
  expect_refused(refusal(at::zeros({0, 3}, at::kLong), at::zeros({0, 3}, at::kLong)), "non-empty");
  expect_refused(refusal(batch.ids.to(at::kFloat), batch.labels), "int64");
  expect_refused(refusal({}, batch.labels), "token ids");
  ForwardOptions options;
  options.attention_dropout = 0.1;
  expect_refused(refusal(batch.ids, batch.labels, options), "generator");
  options.attention_dropout = 1.0;
  expect_refused(refusal(batch.ids, batch.labels, options), "0 <= p < 1");
}

TEST(CausalLm, AbsurdConfigIsRefusedBeforeAllocating) {
  ModelConfig config = tiny();
  config.layers = 0;
  EXPECT_FALSE(CausalLm::make(config, 1));
  EXPECT_FALSE(CausalLm::from_tensors(tiny(), {}));
}

TEST(CausalLm, OneTokenSequencesWork) {
  auto model = CausalLm::make(tiny(), 2).value();
  EXPECT_TRUE(model.logits(at::ones({3, 1}, at::kLong)));
  const auto loss = model.loss(at::ones({3, 1}, at::kLong), at::ones({3, 1}, at::kLong));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->tokens, 0);
}

}  // namespace
}  // namespace lockstep::train
