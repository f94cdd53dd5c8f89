// What a run will do, before it does anything: how many steps, which samples each rank reads in each of them, and the
// identity by which a checkpoint knows its run. Needs no libtorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "lockstep/status.h"
#include "train/micro_batches.h"
#include "train/trainer.h"

namespace lockstep::train {

class RunPlan {
 public:
  static Result<RunPlan> make(const Material& material, const TrainOptions& options, std::uint32_t world);

  std::int64_t total_steps() const noexcept { return total_steps_; }
  std::int64_t epoch_of(std::int64_t step) const noexcept { return step / steps_per_epoch_; }
  std::int64_t step_in_epoch(std::int64_t step) const noexcept { return step % steps_per_epoch_; }

  // A rank's samples of one epoch.
  Result<MicroBatches> epoch_batches(std::uint32_t rank, std::int64_t epoch) const;

  double learning_rate(std::int64_t step) const noexcept { return train::learning_rate(schedule_, step); }

  // What all ranks together have read in the first `steps` steps.
  Result<CoverageStats> coverage_after(std::int64_t steps) const;

  // Everything that decides the run's bits but the number of threads, as a flat object of named values.
  const nlohmann::json& identity() const noexcept { return identity_; }
  std::uint64_t identity_hash() const;

 private:
  RunPlan() = default;
  std::int64_t samples_ = 0;
  std::uint32_t world_ = 1;
  Reading reading_ = Reading::kSharded;
  bool drop_last_ = false;
  BatchPlan batch_;
  std::vector<std::uint64_t> seeds_;
  std::int64_t steps_per_epoch_ = 1;
  std::int64_t total_steps_ = 0;
  ScheduleOptions schedule_;
  nlohmann::json identity_;
};

// "learning_rate is 0.0001, was 5e-05; workers is 4, was 8": what sets two identities apart; empty when nothing does.
std::string identity_difference(const nlohmann::json& ours, const nlohmann::json& theirs);

}  // namespace lockstep::train
