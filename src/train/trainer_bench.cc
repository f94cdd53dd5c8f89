// Tokens per second of whole training steps: the trainer with its data path and, unless told otherwise, its monitor, on
// one virtual worker. Takes the arguments of model_bench.cc, so that tools/bench_eager.py --against runs it beside
// Python's torch. LOCKSTEP_BENCH_MONITOR=0 leaves the monitor out.
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "train/loaded_model.h"
#include "train/trainer.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kWarmUpSteps = 3;

int bench(char** argument) {
  const auto number = [&] { return std::strtoll(*argument++, nullptr, 10); };
  ModelConfig config;
  config.hidden_size = number();
  config.intermediate_size = number();
  config.layers = number();
  config.heads = number();
  config.kv_heads = number();
  config.vocab_size = number();
  config.head_dim = config.hidden_size / std::max<std::int64_t>(1, config.heads);
  config.tied_embeddings = true;
  const std::int64_t batch = number(), positions = number(), steps = number();
  config.max_positions = positions;
  TrainOptions options;
  options.threads = static_cast<std::uint32_t>(number());
  options.precision = std::strcmp(*argument, "bf16") == 0 ? Precision::kBf16 : Precision::kFp32;
  options.batch = {batch, 1, PartialStep::kDrop};
  options.max_steps = steps + kWarmUpSteps;
  options.learning_rate = 1e-4;
  const char* monitor = std::getenv("LOCKSTEP_BENCH_MONITOR");
  options.watch.enabled = monitor == nullptr || std::strcmp(monitor, "0") != 0;

  auto model = make_model(config, 1);
  if (!model) return fmt::print(stderr, "{}\n", model.error().message()), 2;
  Material material;
  material.model = model->model;
  material.parameters = model->parameters;
  material.data.seq = positions;
  std::mt19937 random(1);
  for (std::int64_t row = 0; row < 16 * batch; ++row) {
    Example example;
    for (std::int64_t i = 0; i < positions; ++i) {
      example.ids.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(config.vocab_size)));
    }
    example.fingerprint = fingerprint_tokens(example.ids);
    material.data.examples.push_back(std::move(example));
  }
  auto engine = make_virtual_engine(1);
  auto result = train(material, options, **engine);
  if (!result) return fmt::print(stderr, "{}\n", result.error().message()), 3;
  double seconds = 0;
  for (std::size_t i = kWarmUpSteps; i < result->steps.size(); ++i) seconds += result->steps[i].seconds;
  fmt::print("{{\"parameters\": {}, \"tokens_per_s\": {:.1f}, \"loss\": {:.5f}}}\n", material.parameters,
             static_cast<double>(batch * positions * steps) / seconds, result->steps.back().loss);
  return 0;
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  if (argc != 12) {
    fmt::print(stderr, "usage: {} hidden ffn layers heads kv_heads vocab batch positions steps threads fp32|bf16\n",
               argv[0]);
    return 2;
  }
  return lockstep::train::bench(argv + 1);
}
