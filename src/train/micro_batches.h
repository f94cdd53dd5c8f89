// Cuts one rank's order of an epoch into steps and micro-batches.
//
// A last micro-batch that is not full is dropped. What follows when the micro-batches do not divide by the accumulation
// is a choice: the paper's epoch of 813 steps on 52,002 rows keeps a last step of two micro-batches; dropping it gives
// 812 steps that all weigh the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/status.h"
#include "train/readings.h"

namespace lockstep::train {

enum class PartialStep { kKeep, kDrop };

struct BatchPlan {
  std::int64_t micro_batch = 2;   // sequences per rank and micro-batch
  std::int64_t accumulation = 4;  // micro-batches per step
  PartialStep partial = PartialStep::kDrop;
};

// Owns the order and gives out views of it; valid as long as this object. Copyable, no threads.
class MicroBatches {
 public:
  // kInvalidArgument when micro_batch or accumulation is below one.
  static Result<MicroBatches> create(std::vector<std::int64_t> order, const BatchPlan& plan);

  std::int64_t steps() const noexcept { return steps_; }
  // Micro-batches of a step: the accumulation, or fewer in a last partial step; 0 past the end.
  std::int64_t micro_batches(std::int64_t step) const noexcept;
  // Sample indices of one micro-batch; empty when there is no such one.
  std::span<const std::int64_t> indices(std::int64_t step, std::int64_t micro) const noexcept;
  // All samples of the first `steps` steps: what was read once they are done.
  std::span<const std::int64_t> read_after(std::int64_t steps) const noexcept;

 private:
  MicroBatches(std::vector<std::int64_t> order, const BatchPlan& plan);
  std::vector<std::int64_t> order_;
  BatchPlan plan_;
  std::int64_t steps_ = 0;
  std::int64_t used_micro_batches_ = 0;
};

// Steps that every rank can do in one epoch. An error, with the way out, when not even one: too few samples for this
// many workers and this batch.
Result<std::int64_t> steps_per_epoch(Reading reading, std::int64_t samples, std::uint32_t world, bool drop_last,
                                     const BatchPlan& plan);

}  // namespace lockstep::train
