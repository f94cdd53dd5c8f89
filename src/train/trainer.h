// The trainer: synchronous data-parallel full fine-tuning, watched through the public monitor.
//
// Each worker reads its own order of the data, accumulates its gradient over micro-batches and shows both to its
// monitor; the engine adds the gradients up, all replicas take the same AdamW step. One loop serves all engines. A
// monitor that fails or is absent changes no bit of the training. The header needs no libtorch.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "train/engine.h"
#include "train/examples.h"
#include "train/material.h"
#include "train/micro_batches.h"
#include "train/precision.h"
#include "train/readings.h"
#include "train/schedule.h"

namespace lockstep::train {

struct WatchOptions {
  bool enabled = true;
  MonitorOptions monitor;
  // Studies want every step: then training waits after each one until it is analysed, and peers get a long deadline.
  bool wait_for_analysis = false;
};

struct CheckpointOptions {
  std::filesystem::path folder;  // empty: none
  std::int64_t every = 0;        // steps; one is also written at the end and when stopped. 0: only those
  bool resume = false;           // go on from the newest one there; from the beginning when there is none
};

// Defaults are the paper's (AdamW 0.9/0.999, 5e-5 linear to 0, decay 0.01, clip 1, micro-batch 2 x 4).
struct TrainOptions {
  Reading reading = Reading::kSharded;
  std::vector<std::uint64_t> seeds;  // of the data order, one per rank; empty: kPaperSeed for all (S1-1)
  bool drop_last = false;            // of the sampler, as torch's
  BatchPlan batch;
  Padding padding = Padding::kToLongest;  // pads change no result, only the work
  std::int64_t epochs = 1;
  std::int64_t max_steps = 0;  // when positive, this many steps, over as many epochs as they take

  ScheduleKind schedule = ScheduleKind::kLinear;
  double learning_rate = 5e-5;
  std::int64_t warmup_steps = 0;
  double weight_decay = 0.01;
  double clip = 1.0;  // of the mean gradient's norm; 0: off

  Precision precision = Precision::kBf16;
  double dropout = 0.0;                     // of attention probabilities, each rank with a generator of its own
  std::uint64_t dropout_seed = kPaperSeed;  // rank r draws from a stream of (dropout_seed, r)
  bool deterministic = false;               // refuse operations whose bits depend on timing
  std::uint32_t threads = 0;                // of this process; 0: what the model can use of its share of the cores

  WatchOptions watch;
  CheckpointOptions checkpoint;
  std::filesystem::path save_to;  // the trained model as a Hugging Face folder; empty: not saved
};

struct StepResult {
  std::int64_t step = 0;          // from 0
  double loss = 0;                // mean over ranks of rank_loss
  std::vector<double> rank_loss;  // mean of the rank's micro-batch means, as in the paper
  double gradient_norm = 0;       // of the mean gradient, before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;           // read by all ranks, without pads
  std::int64_t response_tokens = 0;  // of these, targets of the loss
  double seconds = 0;
};

struct TrainResult {
  std::int64_t total_steps = 0;  // planned
  std::int64_t first_step = 0;   // not 0 after a resume
  std::vector<StepResult> steps;
  bool stopped = false;  // by request, before total_steps

  double final_loss = 0;                  // averaged loss, mean over the last tenth of `steps`, at least one
  std::optional<double> eval_loss_start;  // mean over response tokens of the held-out rows, before the first step
  std::optional<double> eval_loss;        // and after the last
  std::int64_t tokens = 0;
  double seconds = 0;  // of the steps
  double tokens_per_second() const noexcept { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

  CoverageStats coverage;          // of everything read up to the last step, resumed ones too
  std::uint64_t weights_hash = 0;  // of the final weights: equal bits, equal hash
  Health monitor;                  // of rank 0's; default when not watched
};

struct TrainHooks {
  std::vector<std::shared_ptr<Observer>> observers;                                  // of rank 0's monitor
  std::function<void(const StepResult& step, std::int64_t total_steps)> after_step;  // where rank 0 lives
  std::function<void(const std::string& note)> note;  // what a person should know, e.g. where a resume begins
  const std::atomic<bool>* stop = nullptr;            // set (also by a signal handler) to end after the current step
};

// Steps that `train` would do. Names what does not fit: more workers than samples, no full step, wrong number of seeds.
Result<std::int64_t> planned_steps(const Material& material, const TrainOptions& options, std::uint32_t world);

// Trains on `engine`; every process of the job calls it with the same options. The result is complete where rank 0
// lives; elsewhere it lacks coverage, evaluation and the monitor's health.
Result<TrainResult> train(const Material& material, const TrainOptions& options, Engine& engine,
                          const TrainHooks& hooks = {});

}  // namespace lockstep::train
