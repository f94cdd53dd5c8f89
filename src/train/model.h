// A Llama-family causal language model for full fine-tuning: parameters, forward pass, loss, gradients.
//
// One model serves any number of virtual workers: each call computes one micro-batch and adds to .grad; take_gradients
// hands a worker's gradient out without copying it. Holds no optimizer and no data. Not thread-safe: one call at a
// time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/status.h"
#include "train/layers.h"
#include "train/model_config.h"
#include "train/precision.h"

namespace lockstep::train {

inline constexpr std::int64_t kIgnoredLabel = -100;

struct Parameter {
  std::string name;   // Hugging Face's
  at::Tensor tensor;  // a leaf that requires grad
};

struct ForwardOptions {
  Precision precision = Precision::kFp32;
  double attention_dropout = 0.0;          // of the attention probabilities, as in transformers; 0 draws nothing
  std::optional<at::Generator> generator;  // must be given when attention_dropout > 0: each rank has its own
};

struct MicroBatchLoss {
  at::Tensor loss;          // scalar, mean over the counted tokens; zero where there are none
  std::int64_t tokens = 0;  // labels that counted
};

class CausalLm {
 public:
  // Random weights: normal(0, initializer_range), zero biases, unit norms, from `seed` alone.
  static Result<CausalLm> make(const ModelConfig& config, std::uint64_t seed, at::ScalarType dtype = at::kFloat);

  // Weights as given, one per parameter_specs(config) and in that order.
  static Result<CausalLm> from_tensors(const ModelConfig& config, std::vector<at::Tensor> tensors);

  const ModelConfig& config() const noexcept { return config_; }

  // In the order of parameter_specs; the position is the parameter's index. The tensors are shared, not copied.
  const std::vector<Parameter>& parameters() const noexcept { return parameters_; }

  // ids: int64 [batch, positions]. Logits of every position, [batch, positions, vocab], without gradient.
  Result<at::Tensor> logits(const at::Tensor& ids, const ForwardOptions& options = {}) const;

  // Cross-entropy of each next token. labels has the shape of ids and is not shifted: position t is judged by the label
  // at t + 1, kIgnoredLabel counts nothing (prompt, pads). Pads stand at the right end.
  Result<MicroBatchLoss> loss(const at::Tensor& ids, const at::Tensor& labels,
                              const ForwardOptions& options = {}) const;

  // Adds scale * d(loss)/d(parameter) to every .grad.
  static Status backward(const MicroBatchLoss& result, double scale = 1.0);

  // loss() and backward() in one; gives the loss value and its tokens.
  Result<MicroBatchLoss> accumulate(const at::Tensor& ids, const at::Tensor& labels, double scale,
                                    const ForwardOptions& options = {});

  // Drops all gradients. The next backward pass then writes instead of adding.
  void zero_grad();

  // Moves the gradients out, in parameter order, zeros where a parameter had none; afterwards as after zero_grad().
  std::vector<at::Tensor> take_gradients();

  // Puts gradients back (the reduced ones), in parameter order.
  Status set_gradients(const std::vector<at::Tensor>& gradients);

 private:
  struct Linear {
    at::Tensor weight;
    at::Tensor bias;  // undefined without one
  };
  struct Block {
    Linear q, k, v, o, gate, up, down;
    at::Tensor attention_norm, mlp_norm;
  };

  CausalLm() = default;
  void bind();
  Status check_batch(const at::Tensor& ids, const ForwardOptions& options) const;
  const RopeTable& rope(std::int64_t positions) const;
  at::Tensor hidden(const at::Tensor& ids, const ForwardOptions& options) const;
  at::Tensor block(const Block& block, const at::Tensor& x, const AttentionShape& shape,
                   const ForwardOptions& options) const;

  ModelConfig config_;
  std::vector<Parameter> parameters_;
  std::vector<Block> blocks_;  // views of parameters_
  at::Tensor embedding_, final_norm_, output_;
  mutable RopeTable rope_;  // grows with the longest sequence seen
};

}  // namespace lockstep::train
