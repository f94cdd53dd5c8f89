// Tokens per second of one training step (forward, backward, clipping, AdamW) of a random model on random tokens.
// tools/bench_eager.py does the same work in Python's torch; `tools/bench_eager.py --against PROGRAM` runs both in
// turn.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "train/adamw.h"
#include "train/model.h"

namespace lockstep::train {
namespace {

struct Setting {
  ModelConfig config;
  std::int64_t batch = 2, positions = 128, steps = 20, threads = 2;
  Precision precision = Precision::kFp32;
};

// The positional arguments that bench_eager.py passes: hidden ffn layers heads kv_heads vocab batch positions steps
// threads fp32|bf16.
Setting parse(char** argument) {
  Setting setting;
  const auto number = [&] { return std::strtoll(*argument++, nullptr, 10); };
  ModelConfig& config = setting.config;
  config.hidden_size = number();
  config.intermediate_size = number();
  config.layers = number();
  config.heads = number();
  config.kv_heads = number();
  config.vocab_size = number();
  config.head_dim = config.hidden_size / std::max<std::int64_t>(1, config.heads);
  setting.batch = number();
  setting.positions = number();
  setting.steps = number();
  setting.threads = number();
  setting.precision = std::strcmp(*argument, "bf16") == 0 ? Precision::kBf16 : Precision::kFp32;
  config.tied_embeddings = true;
  config.max_positions = setting.positions;
  return setting;
}

int bench(const Setting& setting) {
  at::set_num_threads(static_cast<int>(setting.threads));
  auto model = CausalLm::make(setting.config, 1);
  if (!model) return fmt::print(stderr, "{}\n", model.error().message()), 2;
  auto optimizer = AdamW::make(model->parameters(), {}).value();
  const at::Tensor ids = at::randint(0, setting.config.vocab_size, {setting.batch, setting.positions},
                                     at::detail::createCPUGenerator(1), at::TensorOptions(at::kLong));
  ForwardOptions options;
  options.precision = setting.precision;
  double loss = 0;
  const auto step = [&]() -> Status {
    auto result = model->accumulate(ids, ids, 1.0, options);
    if (!result) return result.error();
    const auto gradients = model->take_gradients();
    loss = result->loss.item<double>();
    return optimizer.step(gradients, 1e-4, clip_factor(gradient_norm(gradients), 1.0));
  };
  for (int i = 0; i < 3; ++i) (void)step();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < setting.steps; ++i) {
    if (Status status = step(); !status) return fmt::print(stderr, "{}\n", status.message()), 3;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{{\"parameters\": {}, \"tokens_per_s\": {:.1f}, \"loss\": {:.5f}}}\n", parameter_count(setting.config),
             static_cast<double>(setting.batch * setting.positions * setting.steps) / seconds, loss);
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
  return lockstep::train::bench(lockstep::train::parse(argv + 1));
}
