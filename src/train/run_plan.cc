#include "train/run_plan.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <string>

namespace lockstep::train {
namespace {

Status refuse(std::string text) {
  return {StatusCode::kInvalidArgument, std::move(text)};
}

const char* name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kLinear:
      return "linear";
    case ScheduleKind::kCosine:
      return "cosine";
  }
  return "unknown";
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

Status check(const TrainOptions& options) {
  if (options.epochs < 1 && options.max_steps < 1) return refuse("0 epochs and 0 steps: nothing to train");
  if (options.max_steps < 0) return refuse(fmt::format("max_steps {}: expected 0 or more", options.max_steps));
  if (!(options.clip >= 0)) return refuse(fmt::format("clip {}: expected 0 (off) or more", options.clip));
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    return refuse(fmt::format("dropout {}: expected 0 <= p < 1", options.dropout));
  }
  if (options.checkpoint.every < 0) return refuse("checkpoint interval below 0");
  return Status::ok();
}

nlohmann::json identity_of(const Material& material, const TrainOptions& options, std::uint32_t world,
                           std::int64_t total_steps, const std::vector<std::uint64_t>& seeds) {
  return {{"model", hex(material.model_hash)},
          {"data", hex(material.data_hash)},
          {"workers", world},
          {"reading", to_string(options.reading)},
          {"seeds", seeds},
          {"drop_last", options.drop_last},
          {"micro_batch", options.batch.micro_batch},
          {"accumulation", options.batch.accumulation},
          {"keep_partial_step", options.batch.partial == PartialStep::kKeep},
          {"pad_to_seq", options.padding == Padding::kToSeq},
          {"total_steps", total_steps},
          {"schedule", name_of(options.schedule)},
          {"learning_rate", options.learning_rate},
          {"warmup_steps", options.warmup_steps},
          {"weight_decay", options.weight_decay},
          {"clip", options.clip},
          {"precision", to_string(options.precision)},
          {"dropout", options.dropout},
          {"dropout_seed", options.dropout_seed}};
}

}  // namespace

Result<RunPlan> RunPlan::make(const Material& material, const TrainOptions& options, std::uint32_t world) {
  if (Status status = check(options); !status) return status;
  RunPlan plan;
  plan.samples_ = static_cast<std::int64_t>(material.data.examples.size());
  plan.world_ = world;
  plan.reading_ = options.reading;
  plan.drop_last_ = options.drop_last;
  plan.batch_ = options.batch;
  plan.seeds_ = options.seeds.empty() ? std::vector<std::uint64_t>(world, kPaperSeed) : options.seeds;
  if (plan.seeds_.size() != world) {
    return refuse(fmt::format("{} seeds for {} workers: give one per worker", plan.seeds_.size(), world));
  }
  auto steps = steps_per_epoch(options.reading, plan.samples_, world, options.drop_last, options.batch);
  if (!steps) return steps.error();
  plan.steps_per_epoch_ = *steps;
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
  if (options.max_steps == 0 && options.epochs > kMaxSteps / *steps) {
    return refuse(fmt::format("{} epochs of {} steps are too many", options.epochs, *steps));
  }
  plan.total_steps_ = options.max_steps > 0 ? options.max_steps : options.epochs * *steps;
  plan.schedule_ = {options.schedule, options.learning_rate, options.warmup_steps, plan.total_steps_};
  if (Status status = check_schedule(plan.schedule_); !status) return status;
  plan.identity_ = identity_of(material, options, world, plan.total_steps_, plan.seeds_);
  return plan;
}

Result<MicroBatches> RunPlan::epoch_batches(std::uint32_t rank, std::int64_t epoch) const {
  auto order =
      rank_order(reading_, samples_, world_, rank, seeds_[rank], static_cast<std::uint64_t>(epoch), drop_last_);
  if (!order) return order.error();
  return MicroBatches::create(std::move(*order), batch_);
}

Result<CoverageStats> RunPlan::coverage_after(std::int64_t steps) const {
  std::vector<std::vector<std::int64_t>> read(world_);
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    for (std::int64_t epoch = 0; epoch * steps_per_epoch_ < steps; ++epoch) {
      auto batches = epoch_batches(rank, epoch);
      if (!batches) return batches.error();
      const auto part = batches->read_after(std::min(steps - epoch * steps_per_epoch_, steps_per_epoch_));
      read[rank].insert(read[rank].end(), part.begin(), part.end());
    }
  }
  const std::vector<std::span<const std::int64_t>> orders(read.begin(), read.end());
  return measure_coverage(samples_, orders);
}

std::uint64_t RunPlan::identity_hash() const {
  const std::string text = identity_.dump();
  return XXH3_64bits(text.data(), text.size());
}

std::string identity_difference(const nlohmann::json& ours, const nlohmann::json& theirs) {
  std::string out;
  const auto add = [&](const std::string& text) { out += out.empty() ? text : "; " + text; };
  for (const auto& [key, value] : ours.items()) {
    const auto found = theirs.find(key);
    if (found == theirs.end()) {
      add(key + " was not recorded");
    } else if (*found != value) {
      add(fmt::format("{} is {}, was {}", key, value.dump(), found->dump()));
    }
  }
  return out;
}

Result<std::int64_t> planned_steps(const Material& material, const TrainOptions& options, std::uint32_t world) {
  auto plan = RunPlan::make(material, options, world);
  if (!plan) return plan.error();
  return plan->total_steps();
}

}  // namespace lockstep::train
