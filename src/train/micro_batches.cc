#include "train/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

// Batches are counted in 64 bits; this keeps their products far from the edge.
constexpr std::int64_t kMaxBatch = 1 << 20;

Status check(const BatchPlan& plan) {
  if (plan.micro_batch >= 1 && plan.micro_batch <= kMaxBatch && plan.accumulation >= 1 &&
      plan.accumulation <= kMaxBatch) {
    return Status::ok();
  }
  return Status(StatusCode::kInvalidArgument, fmt::format("micro-batch {} with accumulation {}: both must be 1 to {}",
                                                          plan.micro_batch, plan.accumulation, kMaxBatch));
}

struct Cut {
  std::int64_t steps;
  std::int64_t micro_batches;
};

Cut cut(std::int64_t samples, const BatchPlan& plan) {
  std::int64_t micro = samples / plan.micro_batch;
  std::int64_t steps = micro / plan.accumulation;
  if (plan.partial == PartialStep::kDrop) return {steps, steps * plan.accumulation};
  return {steps + (micro % plan.accumulation != 0 ? 1 : 0), micro};
}

}  // namespace

Result<MicroBatches> MicroBatches::create(std::vector<std::int64_t> order, const BatchPlan& plan) {
  if (Status status = check(plan); !status) return status;
  return MicroBatches(std::move(order), plan);
}

MicroBatches::MicroBatches(std::vector<std::int64_t> order, const BatchPlan& plan)
    : order_(std::move(order)), plan_(plan) {
  Cut parts = cut(static_cast<std::int64_t>(order_.size()), plan_);
  steps_ = parts.steps;
  used_micro_batches_ = parts.micro_batches;
}

std::int64_t MicroBatches::micro_batches(std::int64_t step) const noexcept {
  if (step < 0 || step >= steps_) return 0;
  return std::min(plan_.accumulation, used_micro_batches_ - step * plan_.accumulation);
}

std::span<const std::int64_t> MicroBatches::indices(std::int64_t step, std::int64_t micro) const noexcept {
  if (micro < 0 || micro >= micro_batches(step)) return {};
  std::int64_t first = (step * plan_.accumulation + micro) * plan_.micro_batch;
  return std::span(order_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(plan_.micro_batch));
}

std::span<const std::int64_t> MicroBatches::read_after(std::int64_t steps) const noexcept {
  std::int64_t whole = std::clamp<std::int64_t>(steps, 0, steps_) * plan_.accumulation;
  std::int64_t micro = std::min(whole, used_micro_batches_);
  return std::span(order_).first(static_cast<std::size_t>(micro * plan_.micro_batch));
}

Result<std::int64_t> steps_per_epoch(Reading reading, std::int64_t samples, std::uint32_t world, bool drop_last,
                                     const BatchPlan& plan) {
  if (Status status = check(plan); !status) return status;
  if (world == 0) return Status(StatusCode::kInvalidArgument, "a run of 0 workers: at least 1 is needed");
  if (samples < 1) return Status(StatusCode::kInvalidArgument, "the data set has no samples");
  std::int64_t per_rank = samples;
  if (reading == Reading::kSharded) {
    // torch's sampler would pad by reading samples twice or more; a run that needs that tells nothing about its data.
    if (samples < world) {
      return Status(
          StatusCode::kInvalidArgument,
          fmt::format("{} workers but only {} samples: use at most {} workers or more data", world, samples, samples));
    }
    per_rank = samples / world + (!drop_last && samples % world != 0 ? 1 : 0);
  }
  std::int64_t steps = cut(per_rank, plan).steps;
  if (steps == 0) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{} samples give {} per worker, fewer than one step of micro-batch {} x accumulation {}: use "
                    "fewer workers, a smaller batch or more data",
                    samples, per_rank, plan.micro_batch, plan.accumulation));
  }
  return steps;
}

}  // namespace lockstep::train
