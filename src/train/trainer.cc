#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "train/file_bytes.h"
#include "train/replica.h"
#include "train/run_checkpoints.h"
#include "train/run_plan.h"
#include "train/step_tail.h"
#include "train/worker_monitors.h"

namespace lockstep::train {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr std::int64_t kEvalBatch = 8;

// Cores of this machine, shared among the workers that probably run on it.
std::uint32_t default_threads(const Engine& engine) {
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  return engine.kind() == EngineKind::kVirtual ? cores : std::max(1U, cores / engine.world());
}

// One training run in this process. Used once: prepare(), then steps, then finish().
class Run {
 public:
  Run(const Material& material, const TrainOptions& options, Engine& engine, const TrainHooks& hooks)
      : material_(material), options_(options), engine_(engine), hooks_(hooks) {}

  Status prepare();
  Status train();
  Status finish();
  TrainResult take_result() { return std::move(result_); }

 private:
  Status make_parts();
  Status compare_with_others();
  Status enter_epoch(std::int64_t epoch);
  Status step(std::int64_t step);
  Status compute_worker(std::int64_t step, std::uint32_t worker);
  void add_direction(const Monitor* monitor);
  Status reduce(std::int64_t step);
  void record_state();
  void collect(std::int64_t step, double seconds);
  Result<double> evaluate() const;
  Status save() const;
  bool direction_due(std::int64_t step) const {
    // From the options and not from a monitor: a collective must not depend on one rank's monitor being alive.
    const MonitorOptions& monitor = options_.watch.monitor;
    return options_.watch.enabled && monitor.exact_cosine_interval != 0 && step % monitor.exact_cosine_interval == 0 &&
           step % monitor.interval == 0;
  }

  const Material& material_;
  const TrainOptions& options_;
  Engine& engine_;
  const TrainHooks& hooks_;

  std::optional<RunPlan> plan_;
  std::optional<Replica> replica_;
  std::optional<WorkerMonitors> monitors_;
  std::optional<RunCheckpoints> checkpoints_;
  std::int64_t epoch_ = -1;
  std::vector<MicroBatches> batches_;  // of this epoch, per local worker
  std::vector<Segment> gradient_segments_, reduced_segments_;
  std::vector<float> direction_;  // sum over ranks of g/|g|, on the steps that want it
  double gradient_norm_ = 0;
  bool stop_ = false;
  std::int64_t next_step_ = 0;
  TrainResult result_;
};

Status Run::make_parts() {
  auto plan = RunPlan::make(material_, options_, engine_.world());
  if (!plan) return plan.error();
  plan_.emplace(std::move(*plan));
  ReplicaOptions replica;
  replica.workers = engine_.local_ranks();
  replica.first_rank = engine_.first_rank();
  replica.tail = StepTail::size(engine_.world());
  replica.weight_decay = options_.weight_decay;
  replica.precision = options_.precision;
  replica.dropout = options_.dropout;
  replica.dropout_seed = options_.dropout_seed;
  replica.deterministic = options_.deterministic;
  replica.threads = options_.threads != 0 ? options_.threads : default_threads(engine_);
  auto made = Replica::make(*material_.model, replica);
  if (!made) return made.error();
  replica_.emplace(std::move(*made));
  gradient_segments_ = replica_->segments(replica_->gradient());
  reduced_segments_ = replica_->segments(replica_->sum());
  auto checkpoints = RunCheckpoints::open(options_, engine_, *plan_, *replica_);
  if (!checkpoints) return checkpoints.error();
  checkpoints_.emplace(std::move(*checkpoints));
  return Status::ok();
}

// Processes that began with other weights, data or options would train something that no one asked for.
Status Run::compare_with_others() {
  const std::string own = plan_->identity().dump();
  auto all = engine_.all_gather(std::as_bytes(std::span(own)));
  if (!all) return all.error();
  const std::string first(reinterpret_cast<const char*>((*all)[0].data()), (*all)[0].size());
  if (own == first) return Status::ok();
  return {StatusCode::kInvalidArgument,
          fmt::format("rank {} was started otherwise than rank 0: here {} there; start all ranks alike",
                      engine_.first_rank(),
                      identity_difference(plan_->identity(), nlohmann::json::parse(first, nullptr, false)))};
}

Status Run::prepare() {
  if (Status status = agree(engine_, make_parts()); !status) return status;
  if (Status status = agree(engine_, compare_with_others()); !status) return status;
  if (options_.checkpoint.resume) {
    auto step = checkpoints_->resume(hooks_.note);
    if (!step) return step.error();
    next_step_ = *step;
  }
  auto monitors = WorkerMonitors::make(options_.watch, engine_, hooks_.observers);
  if (monitors) monitors_.emplace(std::move(*monitors));
  if (Status status = agree(engine_, monitors ? Status::ok() : monitors.error()); !status) return status;
  result_.total_steps = plan_->total_steps();
  result_.first_step = next_step_;
  return Status::ok();
}

Status Run::enter_epoch(std::int64_t epoch) {
  if (epoch == epoch_) return Status::ok();
  epoch_ = epoch;
  batches_.clear();
  for (std::uint32_t worker = 0; worker < engine_.local_ranks(); ++worker) {
    auto batches = plan_->epoch_batches(engine_.first_rank() + worker, epoch);
    if (!batches) return batches.error();
    batches_.push_back(std::move(*batches));
  }
  return Status::ok();
}

// Forward and backward of one worker's micro-batches, shown to its monitor, added to the sum.
Status Run::compute_worker(std::int64_t step, std::uint32_t worker) {
  Monitor* monitor = monitors_->worker(worker);
  if (monitor != nullptr) monitor->begin_step(static_cast<std::uint64_t>(step));
  const std::int64_t within = plan_->step_in_epoch(step);
  const std::int64_t count = batches_[worker].micro_batches(within);
  RankStep totals;
  for (std::int64_t micro = 0; micro < count; ++micro) {
    auto batch = collate(material_.data, batches_[worker].indices(within, micro), options_.padding);
    if (!batch) return batch.error();
    auto loss = replica_->accumulate(*batch, 1.0 / static_cast<double>(count), worker);
    if (!loss) return loss.error();
    if (monitor != nullptr) {
      monitor->on_batch(batch->fingerprints);
      monitor->on_loss(loss->loss, static_cast<std::uint64_t>(loss->tokens));
    }
    totals.loss += loss->loss / static_cast<double>(count);
    totals.tokens += std::accumulate(batch->lengths.begin(), batch->lengths.end(), std::int64_t{0});
    totals.response_tokens += loss->tokens;
  }
  if (monitor != nullptr) {
    for (const Segment& segment : gradient_segments_) monitor->on_gradient(segment);
  }
  if (direction_due(step)) add_direction(monitor);
  StepTail(replica_->sum(), engine_.world()).set(engine_.first_rank() + worker, totals);
  return replica_->fold_gradient();
}

void Run::add_direction(const Monitor* monitor) {
  const std::span<const float> gradient = replica_->gradient();
  direction_.resize(gradient.size());
  double norm = monitor != nullptr ? monitor->gradient_norm() : 0;
  if (!(norm > 0)) norm = replica_->gradient_norm();
  // A gradient without a direction adds nothing; the analysis knows its norm and counts it out.
  if (!std::isfinite(norm) || norm == 0) return;
  const auto scale = static_cast<float>(1.0 / norm);
  for (std::size_t i = 0; i < gradient.size(); ++i) direction_[i] += gradient[i] * scale;
}

// Sum over processes, then mean and clipping in one pass. The optimizer and the monitors see the result.
Status Run::reduce(std::int64_t step) {
  if (Status status = engine_.all_reduce_sum(replica_->sum()); !status) return status;
  auto norm = replica_->average_and_clip(engine_.world(), options_.clip);
  if (!norm) return norm.error();
  gradient_norm_ = *norm;
  monitors_->on_reduced(static_cast<std::uint64_t>(step), reduced_segments_);
  if (!direction_due(step)) return Status::ok();
  if (Status status = engine_.all_reduce_sum(direction_); !status) return status;
  monitors_->on_direction_sum(replica_->segments(direction_));
  std::fill(direction_.begin(), direction_.end(), 0.0F);
  return Status::ok();
}

void Run::record_state() {
  if (!monitors_->wants_state()) return;
  monitors_->on_state(StateChannel::kWeights, replica_->weights_hash());
  monitors_->on_state(StateChannel::kOptimizer, replica_->optimizer_hash());
  monitors_->on_state(StateChannel::kConfig, plan_->identity_hash());
  if (options_.dropout <= 0) return;  // a generator that nobody draws from proves nothing
  for (std::uint32_t worker = 0; worker < engine_.local_ranks(); ++worker) {
    monitors_->worker(worker)->on_state(StateChannel::kRng, replica_->random_hash(worker));
  }
}

Status Run::step(std::int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  if (Status status = enter_epoch(plan_->epoch_of(step)); !status) return status;
  replica_->begin_step();
  for (std::uint32_t worker = 0; worker < engine_.local_ranks(); ++worker) {
    if (Status status = compute_worker(step, worker); !status) return status;
  }
  if (hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed)) {
    StepTail(replica_->sum(), engine_.world()).ask_to_stop();
  }
  if (Status status = reduce(step); !status) return status;
  if (Status status = replica_->optimizer_step(plan_->learning_rate(step)); !status) return status;
  record_state();
  monitors_->end_step();
  collect(step, Seconds(std::chrono::steady_clock::now() - begin).count());
  return Status::ok();
}

void Run::collect(std::int64_t step, double seconds) {
  const StepTail tail(replica_->sum(), engine_.world());
  StepResult out;
  out.step = step;
  for (std::uint32_t rank = 0; rank < engine_.world(); ++rank) {
    const RankStep values = tail.get(rank);
    out.rank_loss.push_back(values.loss);
    out.loss += values.loss / engine_.world();
    out.tokens += values.tokens;
    out.response_tokens += values.response_tokens;
  }
  out.gradient_norm = gradient_norm_;
  out.learning_rate = plan_->learning_rate(step);
  out.seconds = seconds;
  stop_ = tail.stop_asked();
  result_.tokens += out.tokens;
  result_.seconds += seconds;
  if (hooks_.after_step && engine_.is_root()) hooks_.after_step(out, plan_->total_steps());
  result_.steps.push_back(std::move(out));
}

Status Run::train() {
  if (engine_.is_root() && !material_.eval.examples.empty()) {
    auto loss = evaluate();
    if (!loss) return loss.error();
    result_.eval_loss_start = *loss;
  }
  const CheckpointOptions& checkpoint = options_.checkpoint;
  while (next_step_ < plan_->total_steps() && !stop_) {
    if (Status status = step(next_step_++); !status) return status;
    const bool last = next_step_ == plan_->total_steps() || stop_;
    const bool due = last || (checkpoint.every > 0 && next_step_ % checkpoint.every == 0);
    if (due && !checkpoint.folder.empty()) {
      if (Status status = checkpoints_->write(next_step_); !status) return status;
    }
  }
  return Status::ok();
}

Result<double> Run::evaluate() const {
  std::vector<std::int64_t> rows(material_.eval.examples.size());
  std::iota(rows.begin(), rows.end(), 0);
  double loss = 0;
  std::int64_t tokens = 0;
  for (std::size_t begin = 0; begin < rows.size(); begin += kEvalBatch) {
    const auto part = std::span(rows).subspan(begin, std::min<std::size_t>(kEvalBatch, rows.size() - begin));
    auto batch = collate(material_.eval, part, Padding::kToLongest);
    if (!batch) return batch.error();
    auto sum = replica_->evaluate(*batch);
    if (!sum) return sum.error();
    loss += sum->loss * static_cast<double>(sum->tokens);
    tokens += sum->tokens;
  }
  return tokens > 0 ? loss / static_cast<double>(tokens) : 0.0;
}

Status Run::finish() {
  monitors_->finish();
  result_.stopped = next_step_ < plan_->total_steps();
  result_.weights_hash = replica_->weights_hash();
  if (!result_.steps.empty()) {
    const std::size_t last = std::max<std::size_t>(1, result_.steps.size() / 10);
    for (std::size_t i = result_.steps.size() - last; i < result_.steps.size(); ++i) {
      result_.final_loss += result_.steps[i].loss / static_cast<double>(last);
    }
  }
  if (!engine_.is_root()) return Status::ok();
  result_.monitor = monitors_->health();
  auto coverage = plan_->coverage_after(next_step_);
  if (!coverage) return coverage.error();
  result_.coverage = *coverage;
  if (!material_.eval.examples.empty()) {
    auto loss = evaluate();
    if (!loss) return loss.error();
    result_.eval_loss = *loss;
  }
  return options_.save_to.empty() ? Status::ok() : save();
}

Status Run::save() const {
  if (Status status = replica_->save_model(options_.save_to); !status) return status;
  auto tokenizer = read_file(material_.tokenizer);
  if (!tokenizer) return tokenizer.error();
  return write_file_atomically(options_.save_to / "tokenizer.model", *tokenizer);
}

}  // namespace

Result<TrainResult> train(const Material& material, const TrainOptions& options, Engine& engine,
                          const TrainHooks& hooks) {
  Run run(material, options, engine, hooks);
  if (Status status = run.prepare(); !status) return status;
  if (Status status = run.train(); !status) return status;
  if (Status status = run.finish(); !status) return status;
  return run.take_result();
}

}  // namespace lockstep::train
