// Runs a study: trains every arm once per base seed, watched, and measures each run.
//
// Knows the trainer only through a function, so that it needs no libtorch and can be tested against a training whose
// answers are known. What the runs mean together is in study_analysis.h, what is written to disk in study_files.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/monitor.h"
#include "lockstep/status.h"
#include "train/study_metrics.h"
#include "train/study_plan.h"
#include "train/trainer.h"

namespace lockstep::train {

struct StudyOptions {
  StudyKind kind = StudyKind::kS1;
  std::vector<Reading> readings = {Reading::kSharded, Reading::kReplicated};
  std::uint32_t workers = 8;
  std::size_t seeds = 4;                    // base seeds; each trains every arm
  std::int64_t steps = 0;                   // per run, the same in both readings; 0: one epoch of the sharded reading
  std::int64_t samples = 0;                 // of the data set that the trainer reads
  std::uint32_t exact_cosine_interval = 1;  // 0: cosines from sketches only
  std::uint32_t jobs = 1;                   // runs at the same time
  // For every run; the study itself sets reading, seeds, precision (of S2), steps and how it is watched.
  TrainOptions train;
};

// Trains once on `workers` workers. Called from several threads at once where jobs > 1.
using StudyTrainer = std::function<Result<TrainResult>(const TrainOptions& options, const TrainHooks& hooks)>;

struct StudyRunInfo {
  StudyArm arm;
  std::uint64_t base_seed = 0;
  std::vector<std::uint64_t> rank_seeds;
  std::uint32_t workers = 0;
  std::int64_t steps = 0;  // planned

  std::string name() const;  // "S1-1-sharded, seed 42"
};

struct StudyRun {
  StudyRunInfo info;
  bool complete = false;  // trained and analysed to its last step
  RunMetrics metrics;
  std::vector<StudyStep> steps;  // those that were analysed
  double seconds = 0;
  std::int64_t tokens = 0;
  Health monitor;  // rank 0's
};

struct StudyOutcome {
  StudyOptions options;  // with the steps that were meant
  std::int64_t steps_per_epoch = 1;
  std::vector<StudyArm> arms;
  std::vector<std::uint64_t> base_seeds;
  std::vector<StudyRun> runs;  // those that began, in the order of the plan: base seed by base seed, arm by arm
  bool stopped = false;        // by request
  Status error;                // of the run that failed and ended the study
  double seconds = 0;
};

struct StudyProgress {
  std::size_t runs_done = 0, runs = 0;
  double share = 0;  // of all steps, 0 to 1
  std::string run;   // that just did a step
  double loss = 0;   // its averaged loss
};

struct StudyHooks {
  // More observers of a run: where a run store is attached.
  std::function<std::vector<std::shared_ptr<Observer>>(const StudyRunInfo& info)> observers;
  // Each run that began, once, in the order of the plan, from one thread at a time.
  std::function<Status(const StudyRun& run)> finished;
  std::function<void(const StudyProgress& progress)> progress;  // from one thread at a time
  const std::atomic<bool>* stop = nullptr;                      // set to end after the current steps
};

// An error only where nothing could begin; what happens later is in the outcome, with all that was measured.
Result<StudyOutcome> run_study(const StudyOptions& options, const StudyTrainer& trainer, const StudyHooks& hooks = {});

}  // namespace lockstep::train
