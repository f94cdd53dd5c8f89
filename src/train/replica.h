// One process's copy of the model in training: weights, gradient, optimizer and the workers' random streams.
//
// Weights are views of one flat fp32 buffer, gradients of another (order: parameter index), so that a reduction, the
// clipping and a digest each are one walk over memory. Several virtual workers share a replica: each accumulates into
// gradient(), then fold_gradient() adds it to sum(). A single worker accumulates in sum() itself. The only file between
// the training loop and libtorch; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/digest.h"
#include "lockstep/status.h"
#include "train/examples.h"
#include "train/precision.h"

namespace lockstep::train {

class CausalLm;

struct ReplicaOptions {
  std::uint32_t workers = 1;     // that share this replica
  std::uint32_t first_rank = 0;  // of these
  std::size_t tail = 0;          // further floats behind the sum, for what rides along with the reduction
  double weight_decay = 0.01;
  Precision precision = Precision::kFp32;
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  bool deterministic = false;
  std::uint32_t threads = 0;  // 0: libtorch's choice
};

struct LossSum {
  double loss = 0;          // mean over the counted tokens
  std::int64_t tokens = 0;  // that counted
};

class Replica {
 public:
  static Result<Replica> make(const CausalLm& start, const ReplicaOptions& options);
  Replica(Replica&&) noexcept;
  ~Replica();

  // Forward and backward of one micro-batch of local worker `worker`; adds scale * d(loss)/dw to gradient().
  Result<LossSum> accumulate(const Batch& batch, double scale, std::uint32_t worker);
  Result<LossSum> evaluate(const Batch& batch) const;  // no gradient, no dropout

  std::span<const float> gradient() const;  // of the worker at work
  std::span<float> sum();                   // over the workers folded so far, then `tail` floats
  // One segment per parameter over flat memory in parameter order, e.g. gradient().
  std::vector<Segment> segments(std::span<const float> flat) const;

  void begin_step();             // all gradients to zero
  Status fold_gradient();        // gradient() into sum(), and gradient() to zero
  double gradient_norm() const;  // L2 of gradient()
  // sum() over `world` workers becomes their mean, clipped to norm `clip` (0: off), in one pass; the tail stays. Gives
  // the mean's norm before clipping; its bits do not depend on threads.
  Result<double> average_and_clip(std::uint32_t world, double clip);
  Status optimizer_step(double learning_rate);  // with sum() as the gradient

  std::uint64_t weights_hash() const;
  std::uint64_t optimizer_hash() const;
  std::uint64_t random_hash(std::uint32_t worker) const;

  // Bytes of a worker's random generator, and back.
  std::vector<std::byte> random_state(std::uint32_t worker) const;
  Status set_random_state(std::uint32_t worker, std::span<const std::byte> state);

  // Weights as a Hugging Face folder and the optimizer beside them; load() takes what save() wrote for this model.
  Status save(const std::filesystem::path& folder) const;
  Status load(const std::filesystem::path& folder);
  Status save_model(const std::filesystem::path& folder) const;

 private:
  struct Impl;
  explicit Replica(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::train
