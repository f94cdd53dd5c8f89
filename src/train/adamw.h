// AdamW with decoupled weight decay (Loshchilov & Hutter, 2019), equal to torch::optim::AdamW up to rounding.
//
// One pass over memory per parameter with clipping inside it, where torch's takes a dozen. Elementwise, so that its
// bits do not depend on the number of threads. The learning rate comes from outside at each step.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lockstep/status.h"
#include "train/model.h"

namespace lockstep::train {

// What weight decay pulls at. Hugging Face's Trainer leaves biases and norms alone (kMatrices), plain torch does not.
enum class DecayScope { kAll, kMatrices };

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  DecayScope decay_scope = DecayScope::kMatrices;
};

// Global L2 norm over all gradients, accumulated in fp64 in a fixed order.
double gradient_norm(const std::vector<at::Tensor>& gradients);

// Factor that brings a gradient of `norm` to at most `max_norm`, as torch's clip_grad_norm_; 1 when max_norm is 0
// (off).
double clip_factor(double norm, double max_norm) noexcept;

class AdamW {
 public:
  // Parameters must be contiguous fp32 CPU tensors; they are shared, not copied.
  static Result<AdamW> make(const std::vector<Parameter>& parameters, const AdamWOptions& options);

  // One update from gradients in parameter order, each multiplied by `gradient_scale` (clipping) on the way.
  Status step(const std::vector<at::Tensor>& gradients, double learning_rate, double gradient_scale = 1.0);

  std::int64_t steps() const noexcept { return steps_; }

  // First and second moments, "exp_avg.<parameter>" and "exp_avg_sq.<parameter>", shared: for hashing and checkpoints.
  std::vector<std::pair<std::string, at::Tensor>> state() const;

  // The state as a safetensors file and back, bit for bit. load() changes nothing unless all of it fits.
  Status save(const std::filesystem::path& path) const;
  Status load(const std::filesystem::path& path);

 private:
  struct Slot {
    Parameter parameter;
    at::Tensor mean, mean_square;
    bool decays = true;
  };
  AdamWOptions options_;
  std::vector<Slot> slots_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::train
