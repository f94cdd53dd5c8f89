#include "train/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TrainOptions train_options(const StudyOptions& study, const StudyRunInfo& info) {
  TrainOptions options = study.train;
  options.reading = info.arm.reading;
  options.seeds = info.rank_seeds;
  options.precision = info.arm.precision;
  options.max_steps = info.steps;
  options.watch.enabled = true;
  options.watch.wait_for_analysis = true;  // every step counts: a dropped one would bias the means of a run
  options.watch.monitor.exact_cosine_interval = study.exact_cosine_interval;
  return options;
}

// The runs of a study, shared by the threads that do them. Results leave in the order of the plan, whichever is done
// first, so that files and tables do not depend on timing.
class RunQueue {
 public:
  RunQueue(StudyOutcome& outcome, const StudyTrainer& trainer, const StudyHooks& hooks)
      : outcome_(outcome), trainer_(trainer), hooks_(hooks) {
    for (std::uint64_t base : outcome.base_seeds) {
      for (const StudyArm& arm : outcome.arms) {
        plan_.push_back({arm, base, rank_seeds(arm.seeds, outcome.options.workers, base), outcome.options.workers,
                         outcome.options.steps});
      }
    }
    done_.resize(plan_.size());
    steps_done_.resize(plan_.size());
  }

  // Works until nothing is left or the study ends early.
  void work() {
    while (const std::optional<std::size_t> index = take()) run(*index);
  }

  std::size_t size() const { return plan_.size(); }

 private:
  bool stop_requested() const { return hooks_.stop != nullptr && hooks_.stop->load(); }

  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (next_ == plan_.size() || !outcome_.error.is_ok()) return std::nullopt;
    if (stop_requested()) {
      outcome_.stopped = true;
      return std::nullopt;
    }
    return next_++;
  }

  void run(std::size_t index) {
    const StudyRunInfo& info = plan_[index];
    auto observer = std::make_shared<StudyObserver>();
    TrainHooks hooks;
    hooks.observers = {observer};
    if (hooks_.observers) {
      for (auto& more : hooks_.observers(info)) hooks.observers.push_back(std::move(more));
    }
    hooks.stop = hooks_.stop;
    hooks.after_step = [&](const StepResult& step, std::int64_t) { report(index, step); };
    Result<TrainResult> result = trainer_(train_options(outcome_.options, info), hooks);

    StudyRun run;
    run.info = info;
    run.steps = observer->steps();
    const BatchPlan& batch = outcome_.options.train.batch;
    run.metrics = measure_steps(run.steps, batch.micro_batch * batch.accumulation);
    const std::lock_guard lock(mutex_);
    if (result) {
      complete(run, *result);
    } else if (outcome_.error.is_ok()) {
      outcome_.error = Status(result.error().code(), fmt::format("{}: {}", info.name(), result.error().message()));
    }
    done_[index] = std::move(run);
    hand_over();
  }

  void complete(StudyRun& run, const TrainResult& result) {
    run.metrics["coverage"] = result.coverage.coverage;
    run.metrics["overlap"] = result.coverage.overlap;
    run.metrics["final_loss"] = result.final_loss;
    if (result.eval_loss) run.metrics["eval_loss"] = *result.eval_loss;
    run.seconds = result.seconds;
    run.tokens = result.tokens;
    run.monitor = result.monitor;
    const auto analysed = static_cast<std::int64_t>(run.steps.size());
    run.complete = !result.stopped && analysed == run.info.steps;
    outcome_.stopped = outcome_.stopped || result.stopped;
    if (run.complete || result.stopped || !outcome_.error.is_ok()) return;
    const std::string reason = result.monitor.enabled ? result.monitor.last_problem : result.monitor.reason.message();
    outcome_.error =
        Status(StatusCode::kUnavailable, fmt::format("{}: {} of {} steps were analysed ({})", run.info.name(), analysed,
                                                     run.info.steps, reason.empty() ? "no reason given" : reason));
  }

  // Everything that is next in the plan and done. Called with the lock held.
  void hand_over() {
    for (; handed_ < done_.size() && done_[handed_]; ++handed_) {
      StudyRun& run = *done_[handed_];
      if (hooks_.finished) {
        Status status = hooks_.finished(run);
        if (!status && outcome_.error.is_ok()) outcome_.error = std::move(status);
      }
      outcome_.runs.push_back(std::move(run));
    }
  }

  void report(std::size_t index, const StepResult& step) {
    if (!hooks_.progress) return;
    const std::lock_guard lock(mutex_);
    steps_done_[index] = step.step + 1;
    StudyProgress progress;
    progress.runs = plan_.size();
    std::int64_t steps = 0;
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      steps += steps_done_[i];
      progress.runs_done += steps_done_[i] >= plan_[i].steps ? 1 : 0;
    }
    progress.share = static_cast<double>(steps) /
                     static_cast<double>(outcome_.options.steps * static_cast<std::int64_t>(plan_.size()));
    progress.run = plan_[index].name();
    progress.loss = step.loss;
    hooks_.progress(progress);
  }

  StudyOutcome& outcome_;
  const StudyTrainer& trainer_;
  const StudyHooks& hooks_;
  std::vector<StudyRunInfo> plan_;
  std::mutex mutex_;
  std::size_t next_ = 0;
  std::size_t handed_ = 0;
  std::vector<std::optional<StudyRun>> done_;
  std::vector<std::int64_t> steps_done_;
};

Status check(const StudyOptions& options) {
  if (options.workers < 2) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("a study of {} worker(s) has nothing to compare: use --workers 2 or more", options.workers));
  }
  if (options.seeds < 1) return Status(StatusCode::kInvalidArgument, "a study needs at least one seed: use --seeds 5");
  if (options.readings.empty()) return Status(StatusCode::kInvalidArgument, "a study needs at least one reading");
  if (options.steps < 0) return Status(StatusCode::kInvalidArgument, "the number of steps is negative");
  return Status::ok();
}

}  // namespace

std::string StudyRunInfo::name() const {
  return fmt::format("{}, seed {}", arm.label(), base_seed);
}

Result<StudyOutcome> run_study(const StudyOptions& options, const StudyTrainer& trainer, const StudyHooks& hooks) {
  if (Status status = check(options); !status) return status;
  StudyOutcome outcome;
  outcome.options = options;
  const TrainOptions& train = options.train;
  Result<std::int64_t> epoch =
      steps_per_epoch(Reading::kSharded, options.samples, options.workers, train.drop_last, train.batch);
  if (!epoch) return epoch.error();
  outcome.steps_per_epoch = *epoch;
  if (outcome.options.steps == 0) outcome.options.steps = *epoch * std::max<std::int64_t>(train.epochs, 1);
  const std::int64_t epochs = (outcome.options.steps + *epoch - 1) / *epoch;
  outcome.arms = study_arms(options.kind, options.readings, train.precision);
  outcome.base_seeds = study_base_seeds(options.seeds, options.workers, epochs);

  const Clock::time_point start = Clock::now();
  RunQueue queue(outcome, trainer, hooks);
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(options.jobs, queue.size()); ++i) {
    helpers.emplace_back([&queue] { queue.work(); });
  }
  queue.work();
  for (std::thread& helper : helpers) helper.join();
  outcome.seconds = seconds_since(start);
  return outcome;
}

}  // namespace lockstep::train
